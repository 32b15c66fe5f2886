"""The guides' examples are what the code makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xsft.environments.installed import BuiltEnvironment
from xsft.importing.build import import_paste
from xsft.spec.explain import read_spec

GUIDES = Path(__file__).parent.parent / "docs" / "guides"
TUTORIAL = GUIDES / "from-a-tutorial.md"
MODULE = "maxtext.checkpoint_conversion.to_huggingface"


def test_the_yaml_of_the_tutorial_equals_the_import_of_its_page() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    (written,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    imported, page = read_spec(import_paste(text).yaml), read_spec(written)
    assert imported.model_dump(exclude={"train"}) == page.model_dump(exclude={"train"})
    assert imported.train.model_dump(exclude={"checkpoint_period"}) == page.train.model_dump(
        exclude={"checkpoint_period"}
    )


def test_every_variable_of_the_tutorial_is_in_the_table() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    table = "".join(line for line in text.splitlines() if line.startswith("|"))
    exported = re.findall(r"^export (\w+)=", text, re.MULTILINE)
    assert len(exported) > 10
    assert [name for name in exported if f"`{name}`" not in table] == []


@pytest.mark.contract
def test_the_program_that_exports_is_in_the_release(maxtext_environment: BuiltEnvironment) -> None:
    path = f"lib/python3.12/site-packages/{MODULE.replace('.', '/')}.py"
    program = (maxtext_environment.folder / path).read_text(encoding="utf-8")
    assert all(f'"{flag}"' in program for flag in ("override_model_architecture", "hf_model_path"))
