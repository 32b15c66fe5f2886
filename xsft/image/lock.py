"""Read and write `images/<name>.lock.json`: the digest of an image per registry; users commit it. Pure.

Unknown keys of a newer xsft are kept when this version writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert
from msgspec.json import Decoder
from msgspec.structs import asdict, fields, replace

from xsft.image.options import BuildOptions
from xsft.image.recipe import Base, parse_base
from xsft.image.reference import parse_repository

SCHEMA = "xsft.image-lock/1"
_FAMILY = SCHEMA.rpartition("/")[0]
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class LockedImage(Struct, frozen=True, kw_only=True):
    """A pushed image in the lock, which `submit` may run."""

    image: str
    repository: str
    digest: str
    """Digest of the manifest, `sha256:…`, which is what the image is."""
    maxtext: str
    deps: str
    """Tag of the dependencies' image."""
    deps_digest: str | None = None
    """Digest of its manifest, on which the code is laid; None if it is not in the registry."""
    code: str
    """Tag of the image: a hash of its inputs."""
    pushed_at: str
    """UTC, ISO 8601."""
    commit: str | None = None
    dirty: bool | None = None
    base: str = ""
    """`Base.known`."""
    evaluate: str | None = None
    """sha256 of the evaluation program in the image; None: it has none."""
    options: BuildOptions | None = None
    """Options of the build, which the next call repeats; None if they cannot be repeated here (a folder outside the
    project).
    """

    @property
    def ref(self) -> str:
        return f"{self.repository}@{self.digest}"


for _kind in (LockedImage, BuildOptions):
    Decoder(_kind)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


def read_lock(text: str) -> dict[str, LockedImage]:
    """Return the last pushed image per repository. Raises ValueError for an invalid lock.

    Invalid repository names are left out, because the names become arguments of commands.
    """
    document = _parse_lock(text)
    image, rows = str(document.get("image", "")), document.get("images")
    images: dict[str, LockedImage] = {}
    for repository, row in rows.items() if isinstance(rows, Mapping) else ():
        locked = None
        if isinstance(row, Mapping) and _is_repository(str(repository)):
            locked = _read_row(image, str(repository), row)
        if locked:
            images[str(repository)] = locked
    return images


def last_options(images: Mapping[str, LockedImage], repository: str | None) -> LockedImage | None:
    """Return the entry whose options a call repeats: the repository's, else that of the last push to any other."""
    if repository and repository in images:
        return images[repository]
    return max(images.values(), key=lambda locked: locked.pushed_at, default=None)


def read_base(text: str) -> Base | None:
    """Return the pinned base image, or None. Raises ValueError for an invalid lock."""
    base = parse_base(str(_parse_lock(text).get("base") or ""))
    if base and _DIGEST.fullmatch(base.digest or ""):
        return base
    return None


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
    others = rows if isinstance(rows, Mapping) else {}
    images = {**others, locked.repository: _write_row(locked)}
    return _lock_text({**document, "image": locked.image, "images": images})


def same_image(locked: LockedImage, other: LockedImage) -> bool:
    """Return whether two entries differ in time and commit at most; then the lock need not be written again."""
    timeless = {"pushed_at": "", "commit": None, "dirty": None}
    return replace(locked, **timeless) == replace(other, **timeless)


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


def _write_row(locked: LockedImage) -> dict[str, Any]:
    row = {name: field for name, field in asdict(locked).items() if field is not None}
    for name in ("image", "repository", "options"):
        row.pop(name, None)
    if locked.options is None:
        return {**row, "options": None}
    options = {name: option for name, option in asdict(locked.options).items() if option}
    for name in ("image", "registry", "pip_config"):
        options.pop(name, None)
    return {**row, "options": options}


def _read_row(image: str, repository: str, row: Mapping[str, Any]) -> LockedImage | None:
    """Return the entry, or None for a row without a valid digest."""
    fields_of_row = {**row, "image": image, "repository": repository, "options": None}
    if not _DIGEST.fullmatch(str(row.get("deps_digest"))):
        fields_of_row["deps_digest"] = None
    try:
        locked = convert(fields_of_row, LockedImage)
    except ValidationError:
        return None
    if not _DIGEST.fullmatch(locked.digest):
        return None
    return replace(locked, options=_read_options(image, locked.maxtext, row.get("options")))


def _read_options(image: str, maxtext: str, row: Any) -> BuildOptions | None:
    """Return the options of the build; None if one is unknown to this xsft: without it another image would be built."""
    if not isinstance(row, Mapping) or row.keys() - {option.name for option in fields(BuildOptions)}:
        return None
    try:
        return convert({"maxtext": maxtext, **row, "image": image}, BuildOptions)
    except ValidationError:
        return None
