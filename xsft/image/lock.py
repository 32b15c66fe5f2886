"""`images/<name>.lock.json`: which digest an image has in which registry, to be committed. Pure.

Read leniently: what a newer xsft adds is kept when this one writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import NODEFAULT
from msgspec.structs import asdict, fields, replace

from xsft.image.model import Base, BuildOptions, Locked
from xsft.image.recipe import base_of
from xsft.image.reference import parse_repository

SCHEMA = "xsft.image-lock/1"
_FAMILY = SCHEMA.rpartition("/")[0]
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def read_lock(text: str) -> dict[str, Locked]:
    """Repository -> what was pushed there last. Raises ValueError for a text that is no lock.

    A repository that is none is left out: what is read here goes into command lines.
    """
    document = _document(text)
    image = str(document.get("image", ""))
    rows = document.get("images")
    found = {
        repository: _locked(image, str(repository), row)
        for repository, row in (rows.items() if isinstance(rows, Mapping) else ())
        if isinstance(row, Mapping) and _is_repository(str(repository))
    }
    return {str(repository): locked for repository, locked in found.items() if locked is not None}


def read_base(text: str) -> Base | None:
    """The base that everybody builds on; None where none is pinned. Raises ValueError for a text that is no lock."""
    base = base_of(str(_document(text).get("base") or ""))
    return base if base and _DIGEST.fullmatch(base.digest or "") else None


def with_base(text: str | None, *, image: str, base: Base) -> str:
    """The lock's text with this base in place of the one that was pinned. Raises ValueError as `updated` does."""
    return _written({**_writable(text), "image": image, "base": base.pinned})


def updated(text: str | None, locked: Locked) -> str:
    """The lock's text with this image in place of the one that was there for its repository.

    Raises ValueError for a text that is no lock, or of a later version: writing would lose some of it.
    """
    document = _writable(text)
    if not _DIGEST.fullmatch(locked.digest):
        raise ValueError(f"{locked.digest!r} is no digest")
    rows = document.get("images")
    kept = dict(rows) if isinstance(rows, Mapping) else {}
    kept[locked.repository] = _row(locked)
    return _written({**document, "image": locked.image, "images": kept})


def same_image(one: Locked, other: Locked) -> bool:
    """Whether a lock that has `one` need not be written again for `other`: the time alone is no change."""
    same = {"pushed_at": "", "commit": None, "dirty": None}
    return replace(one, **same) == replace(other, **same)


def _writable(text: str | None) -> dict[str, Any]:
    document = _document(text) if text else {}
    if document.get("schema", SCHEMA) != SCHEMA:
        raise ValueError(f"it is of another version ({document['schema']}); this xsft writes {SCHEMA}")
    return document


def _written(document: Mapping[str, Any]) -> str:
    return json.dumps({"images": {}, **document, "schema": SCHEMA}, indent=1, sort_keys=True) + "\n"


def _is_repository(text: str) -> bool:
    try:
        return parse_repository(text).name == text
    except ValueError:
        return False


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise ValueError(f"it is not JSON: {broken}") from None
    if not isinstance(document, dict) or str(document.get("schema", "")).rpartition("/")[0] != _FAMILY:
        raise ValueError(f"it has no schema {_FAMILY}/…")
    return document


def _row(locked: Locked) -> dict[str, Any]:
    row = {name: value for name, value in asdict(locked).items() if name not in {"image", "repository", "options"}}
    options = asdict(locked.options) if locked.options else None
    kept = {k: v for k, v in (options or {}).items() if k not in {"image", "registry", "pip_config"} and v}
    return {**{name: value for name, value in row.items() if value is not None}, "options": kept if options else None}


def _locked(image: str, repository: str, row: Mapping[str, Any]) -> Locked | None:
    """None for a row that does not say which bytes are meant."""
    known = {
        f.name: row[f.name]
        for f in fields(Locked)
        if f.name in row and f.name not in {"image", "repository", "options"}
    }
    if not _DIGEST.fullmatch(str(known.get("deps_digest"))):
        known.pop("deps_digest", None)
    texts = {"digest", "maxtext", "deps", "code", "pushed_at", "base"}
    if any(not isinstance(value, str) for name, value in known.items() if name in texts):
        return None
    required = {f.name for f in fields(Locked) if f.default is NODEFAULT} - {"image", "repository"}
    if required - known.keys() or not _DIGEST.fullmatch(known["digest"]):
        return None
    return Locked(
        image=image, repository=repository, options=_options(image, known["maxtext"], row.get("options")), **known
    )


def _options(image: str, maxtext: str, row: Any) -> BuildOptions | None:
    """None also for options that this xsft does not know all of: repeating the rest would make another image."""
    names = {f.name for f in fields(BuildOptions)}
    if not isinstance(row, Mapping) or row.keys() - names:
        return None
    given = {**row, "image": image, "maxtext": row.get("maxtext", maxtext)}
    if isinstance(given.get("code"), list):
        given["code"] = tuple(given["code"])
    return BuildOptions(**given)
