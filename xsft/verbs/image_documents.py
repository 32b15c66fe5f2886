"""The document of `xsft image`."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from xsft.verbs.document import Document, ProblemFields


class ContextEntry(Document, frozen=True, kw_only=True):
    """A file that is put into an image."""

    path: str
    size: int
    """Bytes."""


class ImagePart(Document, frozen=True, kw_only=True):
    """One of the two images: dependencies, or code."""

    tag: str
    """`deps-<hash>` or `code-<hash>`: the same content has the same tag."""
    outcome: Literal["held", "in-registry", "pulled", "built", "not-needed"] | None
    """What `build` and `push` did; null for `show`. `held`: the engine had it; `in-registry`: the registry
    had it; `not-needed`: no missing image is built on it."""
    seconds: float | None
    """Seconds of building, pulling or adding."""
    files: int
    bytes: int
    """Bytes of its files; of a fork, only those that differ from the installed ones are sent."""
    largest: list[ContextEntry]
    args: dict[str, str]
    """Build arguments; the code has none."""


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


class ImageDocument(Document, frozen=True, kw_only=True):
    """`xsft image ACTION --json`."""

    schema_: Literal["xsft.image/1"] = field(name="schema")
    action: Literal["build", "push", "show"]
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
    sent_bytes: int | None
    """Bytes that `push` sent of the code's layers and documents; 0 if there was nothing to send. Else null."""
    images: None
    """Always null; earlier versions listed images here."""
    problems: list[ProblemFields]
    """Warnings."""
