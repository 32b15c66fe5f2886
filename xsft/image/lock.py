"""Read and write `images/<name>.lock.json`: the digest of an image per registry; users commit it. Pure.

Unknown keys of a newer xsft are kept when this version writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import ValidationError, convert
from msgspec.json import Decoder
from msgspec.structs import asdict, fields, replace

from xsft.image.model import Base, BuildOptions, LockedImage
from xsft.image.recipe import base_of
from xsft.image.reference import parse_repository

SCHEMA = "xsft.image-lock/1"
_FAMILY = SCHEMA.rpartition("/")[0]
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

for _kind in (LockedImage, BuildOptions):
    Decoder(_kind)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


def read_lock(text: str) -> dict[str, LockedImage]:
    """Return the last pushed image per repository. Raises ValueError for an invalid lock.

    Invalid repository names are left out, because the names become arguments of commands.
    """
    document = _parse_lock(text)
    image = str(document.get("image", ""))
    rows = document.get("images")
    found = {
        repository: _locked_image(image, str(repository), row)
        for repository, row in (rows.items() if isinstance(rows, Mapping) else ())
        if isinstance(row, Mapping) and _is_repository(str(repository))
    }
    return {str(repository): locked for repository, locked in found.items() if locked is not None}


def read_base(text: str) -> Base | None:
    """Return the pinned base image, or None. Raises ValueError for an invalid lock."""
    base = base_of(str(_parse_lock(text).get("base") or ""))
    return base if base and _DIGEST.fullmatch(base.digest or "") else None


def with_base(text: str | None, *, image: str, base: Base) -> str:
    """Return the lock's text with its pinned base replaced. Raises ValueError as `update_lock` does."""
    return _lock_text({**_writable(text), "image": image, "base": base.pinned})


def update_lock(text: str | None, locked: LockedImage) -> str:
    """Return the lock's text with the repository's image replaced.

    Raises ValueError for an invalid lock, and for one of a later version, because writing it would lose data.
    """
    document = _writable(text)
    if not _DIGEST.fullmatch(locked.digest):
        raise ValueError(f"{locked.digest!r} is not a digest")
    rows = document.get("images")
    kept = dict(rows) if isinstance(rows, Mapping) else {}
    kept[locked.repository] = _lock_row(locked)
    return _lock_text({**document, "image": locked.image, "images": kept})


def same_image(one: LockedImage, other: LockedImage) -> bool:
    """Return whether two entries differ in time at most; then the lock need not be written again."""
    same = {"pushed_at": "", "commit": None, "dirty": None}
    return replace(one, **same) == replace(other, **same)


def _writable(text: str | None) -> dict[str, Any]:
    document = _parse_lock(text) if text else {}
    if document.get("schema", SCHEMA) != SCHEMA:
        raise ValueError(f"its version is {document['schema']}; this xsft writes {SCHEMA}")
    return document


def _lock_text(document: Mapping[str, Any]) -> str:
    return json.dumps({"images": {}, **document, "schema": SCHEMA}, indent=1, sort_keys=True) + "\n"


def _is_repository(text: str) -> bool:
    try:
        return parse_repository(text).name == text
    except ValueError:
        return False


def _parse_lock(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise ValueError(f"invalid JSON: {broken}") from None
    if not isinstance(document, dict) or str(document.get("schema", "")).rpartition("/")[0] != _FAMILY:
        raise ValueError(f"it has no schema {_FAMILY}/…")
    return document


def _lock_row(locked: LockedImage) -> dict[str, Any]:
    row = {name: value for name, value in asdict(locked).items() if name not in {"image", "repository", "options"}}
    options = asdict(locked.options) if locked.options else None
    kept = {k: v for k, v in (options or {}).items() if k not in {"image", "registry", "pip_config"} and v}
    return {**{name: value for name, value in row.items() if value is not None}, "options": kept if options else None}


def _locked_image(image: str, repository: str, row: Mapping[str, Any]) -> LockedImage | None:
    """Return the entry, or None for a row without a valid digest."""
    known = {**row, "image": image, "repository": repository, "options": None}
    if not _DIGEST.fullmatch(str(known.get("deps_digest"))):
        known["deps_digest"] = None
    try:
        found = convert(known, LockedImage)
    except ValidationError:
        return None
    options = _options_of_row(image, found.maxtext, row.get("options"))
    return replace(found, options=options) if _DIGEST.fullmatch(found.digest) else None


def _options_of_row(image: str, maxtext: str, row: Any) -> BuildOptions | None:
    """Return the options of the build; None if one is unknown to this xsft: without it another image would be built."""
    if not isinstance(row, Mapping) or row.keys() - {f.name for f in fields(BuildOptions)}:
        return None
    try:
        return convert({"maxtext": maxtext, **row, "image": image}, BuildOptions)
    except ValidationError:
        return None
