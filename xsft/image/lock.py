"""Read and write `images/<name>.lock.json`: the digest of an image per registry; users commit it. Pure.

Unknown keys of a newer xsft are kept when this version writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.json import Decoder
from msgspec.structs import asdict, replace

from xsft.base.lenient import mapping
from xsft.image.options import BuildOptions, given_fields
from xsft.image.reference import parse_repository

SCHEMA = "xsft.image-lock/1"
_FAMILY = SCHEMA.rpartition("/")[0]
Digest = Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]


class LockedImage(Struct, frozen=True, kw_only=True):
    """A pushed image in the lock, which `submit` may run."""

    image: str
    repository: str
    digest: Digest
    """Digest of the manifest, which is what the image is."""
    maxtext: str
    deps: str
    """Tag of the dependencies' image."""
    deps_digest: Digest | None = None
    """Digest of its manifest, on which the code is laid; None if it is not in the registry."""
    code: str
    """Tag of the image: a hash of its inputs."""
    pushed_at: str
    """UTC, ISO 8601."""
    commit: str | None = None
    dirty: bool | None = None
    base: str = ""
    """`Recipe.base`."""
    evaluate: str | None = None
    """sha256 of the evaluation program in the image; None: it has none."""
    options: BuildOptions | None = None
    """Options of the build, which the next call repeats; None if they cannot be repeated here (a folder outside the
    project, or an option of a later xsft): without one another image would be built.
    """

    @property
    def ref(self) -> str:
        return f"{self.repository}@{self.digest}"


class Lock(Struct, frozen=True, kw_only=True):
    """The content of a lock file."""

    base: str = ""
    """Base image that an earlier xsft pinned beside the images; now each image has its own."""
    images: Mapping[str, LockedImage] = {}
    """By repository."""

    def last_push(self, repository: str | None) -> LockedImage | None:
        """Return the entry whose options a call repeats: the repository's, else that of the last push to any other."""
        if repository and repository in self.images:
            return self.images[repository]
        return max(self.images.values(), key=lambda locked: locked.pushed_at, default=None)


for _kind in (LockedImage, BuildOptions):
    Decoder(_kind)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


def read_lock(text: str) -> Lock:
    """Return the last pushed image per repository. Raises ValueError for an invalid lock.

    Rows without a valid digest or repository are left out, because the names become arguments of commands.
    """
    document = _parse_lock(text)
    image = str(document.get("image", ""))
    rows = mapping(document, "images")
    read = (_read_row(image, repository, row) for repository, row in rows.items() if isinstance(row, dict))
    images = {locked.repository: locked for locked in read if locked}
    return Lock(base=str(document.get("base") or ""), images=images)


def update_lock(text: str | None, locked: LockedImage) -> str | None:
    """Return the lock's text with the repository's image replaced; None if only time and commit would change.

    Raises ValueError for an invalid lock, and for one of a later version, because writing it would lose data.
    """
    document: dict[str, Any] = _parse_lock(text) if text else {"schema": SCHEMA}
    if document["schema"] != SCHEMA:
        raise ValueError(f"its version is {document['schema']}; this xsft writes {SCHEMA}")
    before = read_lock(text).images.get(locked.repository) if text else None
    if before and before == replace(locked, pushed_at=before.pushed_at, commit=before.commit, dirty=before.dirty):
        return None
    row = {name: field for name, field in asdict(locked).items() if field is not None}
    del row["image"], row["repository"]
    row["options"] = given_fields(locked.options) if locked.options else None
    others = mapping(document, "images")
    document |= {"image": locked.image, "images": {**others, locked.repository: row}}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _parse_lock(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise ValueError(f"invalid JSON: {broken}") from None
    if not isinstance(document, dict) or str(document.get("schema", "")).rpartition("/")[0] != _FAMILY:
        raise ValueError(f"it has no schema {_FAMILY}/…")
    return document


def _read_row(image: str, repository: str, row: Mapping[str, Any]) -> LockedImage | None:
    try:
        if parse_repository(repository).name != repository:
            return None
        locked = convert({**row, "image": image, "repository": repository, "options": None}, LockedImage)
    except (ValidationError, ValueError):
        return None
    try:
        options = convert({"maxtext": locked.maxtext, **row["options"]}, BuildOptions)
    except (ValidationError, KeyError, TypeError):
        return locked
    return replace(locked, options=options)
