"""Documents and their schemas. That verbs print them: tests/verbs/test_every_document.py."""

from __future__ import annotations

import json
from typing import get_args, get_type_hints

import pytest

from xsft.environments.environments import NAMES
from xsft.verbs.cli import HIDDEN, VERBS, actions_of, parser
from xsft.verbs.doctor import Environment
from xsft.verbs.documents import DOCUMENTS, published_schema


def test_every_verb_with_json_has_a_document() -> None:
    (verbs,) = (a.choices for a in parser()._actions if isinstance(a.choices, dict))
    assert set(verbs) == {*VERBS, *HIDDEN}
    parsers = {name: (sub, *actions_of(sub).values()) for name, sub in verbs.items()}
    with_json = {name for name, each in parsers.items() if any("--json" in sub.format_help() for sub in each)}
    assert with_json == {name.partition("-")[0] for name in DOCUMENTS} - {"error", "evaluation", "notice"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_published_schema_allows_further_fields(name: str) -> None:
    text = json.dumps(published_schema(name))
    assert '"additionalProperties": false' not in text
    assert f"xsft.{name}/1" in text or name == "error"


def test_the_document_of_setup_has_every_environment() -> None:
    assert get_args(get_type_hints(Environment)["name"]) == NAMES
