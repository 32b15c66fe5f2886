"""The document of `xsft image`."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from xsft.verbs.document import Document, ProblemFields


class ContextEntry(Document, frozen=True, kw_only=True):
    """A file of a build context."""

    path: str
    size: int
    """Bytes."""


class ImagePart(Document, frozen=True, kw_only=True):
    """One of the two images: dependencies, or code."""

    tag: str
    """`deps-<hash>` or `code-<hash>`: the same content has the same tag."""
    outcome: Literal["held", "in-registry", "pulled", "built", "not-needed"] | None
    """What `build` and `push` did; null for `show` and `list`. `held`: the engine had it; `in-registry`: the registry
    had it; `not-needed`: no missing image is built on it."""
    seconds: float | None
    """Seconds of building or pulling."""
    files: int
    bytes: int
    """Bytes of its build context."""
    largest: list[ContextEntry]
    args: dict[str, str]
    """Build arguments."""


class ImageLock(Document, frozen=True, kw_only=True):
    """The entry of images/NAME.lock.json for the repository."""

    file: str
    digest: str
    code: str
    """Tag of the code image."""
    maxtext: str
    pushed_at: str
    """Time of the push; UTC, ISO 8601."""
    commit: str | None
    dirty: bool | None
    current: bool
    """Whether the current files would give the same image."""


class ListedImage(Document, frozen=True, kw_only=True):
    """An image of the engine or of the registry."""

    where: Literal["local", "registry"]
    tag: str
    digest: str | None
    """`sha256:…`; null for a local image that was never pushed or pulled."""
    size: int
    """Bytes: unpacked if local, as stored in the registry."""
    at: str | None
    """Time when it was made or uploaded, ISO 8601; null if the registry does not give it."""
    current: bool
    """Whether this is the tag of the current files."""
    locked: bool
    """Whether the lock file has this digest for the repository."""


class ImageDocument(Document, frozen=True, kw_only=True):
    """`xsft image ACTION --json`."""

    schema_: Literal["xsft.image/1"] = field(name="schema")
    action: Literal["build", "push", "list", "show"]
    image: str
    repository: str | None
    """Repository to which the image is pushed; null if no registry is given."""
    maxtext: str
    maxtext_source: str
    """`pypi`, `git <commit>` or `tree <commit>[-dirty]`."""
    base: str
    """`ref@sha256:…`; `ref#sha256:…` for an image that only this engine has; empty without a base image."""
    deps: ImagePart
    code: ImagePart
    ref: str | None
    """`repository@sha256:…` after a push, for `image.ref` of a workload; else null."""
    pushed: bool | None
    """Whether anything was sent; null except for `push`."""
    lock: ImageLock | None
    """Entry of the lock file after the action; null if there is none for the repository."""
    images: list[ListedImage] | None
    """Images, for `list`."""
    problems: list[ProblemFields]
    """Warnings."""
