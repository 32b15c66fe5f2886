"""Read what `--json` printed as the document that xsft/verbs/documents.py describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from xsft.verbs.documents import DOCUMENTS


def read_document(name: str, printed: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    """Return the document; fails for a field of another type, a missing field, and one that is not described."""
    document: dict[str, Any] = json.loads(printed if isinstance(printed, str | bytes) else json.dumps(printed))
    text = msgspec.json.decode(json.dumps(document), type=DOCUMENTS[name])
    assert not list(_unknown(document, msgspec.to_builtins(text), name))
    return document


def _unknown(content: Any, described: Any, where: str) -> list[str]:
    """Return the paths of fields that the document has and its description has not."""
    match content, described:
        case dict(), dict():
            here = [f"{where}.{key}" for key in content if key not in described]
            return here + [
                path for key in content for path in _unknown(content[key], described.get(key), f"{where}.{key}")
            ]
        case list(), list() | tuple():
            pairs = zip(content, described, strict=True)
            return [path for element, two in pairs for path in _unknown(element, two, f"{where}[]")]
        case _:
            return []
