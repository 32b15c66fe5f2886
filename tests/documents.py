"""Read what `--json` printed as the document that xsft/verbs/documents.py describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from xsft.verbs.documents import DOCUMENTS


def read_document(name: str, printed: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    """Return the document; fails for a field of another type, a missing field, and one that is not described."""
    given: dict[str, Any] = json.loads(printed if isinstance(printed, str | bytes) else json.dumps(printed))
    found = msgspec.json.decode(json.dumps(given), type=DOCUMENTS[name])
    assert not list(_unknown(given, msgspec.to_builtins(found), name))
    return given


def _unknown(given: Any, described: Any, at: str) -> list[str]:
    """Return the paths of fields that the document has and its description has not."""
    match given, described:
        case dict(), dict():
            here = [f"{at}.{key}" for key in given if key not in described]
            return here + [path for key in given for path in _unknown(given[key], described.get(key), f"{at}.{key}")]
        case list(), list() | tuple():
            pairs = zip(given, described, strict=True)
            return [path for one, two in pairs for path in _unknown(one, two, f"{at}[]")]
        case _:
            return []
