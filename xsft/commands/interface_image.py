"""The document about images."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xsft.commands.interface_base import Document, Problem


class ContextEntry(Document):
    """A file of a build context."""

    path: str
    size: int
    """Bytes."""


class ImagePart(Document):
    """One of the two images: dependencies, or the code on top of them."""

    tag: str
    """`deps-<hash>` or `code-<hash>`: the same content has the same tag."""
    outcome: Literal["held", "in-registry", "pulled", "built", "not-needed"] | None
    """What `build` and `push` did; null for `show` and `list`. `held`: the engine had it; `in-registry`: the registry
    had; `not-needed`: nothing is missing that it would be for.
    """
    seconds: float | None
    """Of the building or pulling."""
    files: int
    bytes: int
    """Of its build context."""
    largest: list[ContextEntry]
    args: dict[str, str]
    """Build arguments."""


class ImageLock(Document):
    """What images/NAME.lock.json has for the repository."""

    file: str
    digest: str
    code: str
    """Its tag."""
    maxtext: str
    pushed_at: str
    """UTC, ISO 8601."""
    commit: str | None
    dirty: bool | None
    current: bool
    """What lies here now would make the same image."""


class ListedImage(Document):
    """An image that is there."""

    where: Literal["local", "registry"]
    tag: str
    digest: str | None
    """`sha256:…`; null for a local image that was never pushed or pulled."""
    size: int
    """Bytes: unpacked where local, as stored in the registry."""
    at: str | None
    """When it was made or uploaded, ISO 8601; null where the registry does not tell."""
    current: bool
    """What lies here now has this tag."""
    locked: bool
    """The lock names this digest for the repository."""


class ImageDocument(Document):
    """`xsft image ACTION --json`."""

    schema_: Literal["xsft.image/1"] = Field(alias="schema")
    action: Literal["build", "push", "list", "show"]
    image: str
    repository: str | None
    """Where it is pushed; null where no registry is named."""
    maxtext: str
    maxtext_source: str
    """`pypi`, `git <commit>` or `tree <commit>[-dirty]`."""
    base: str
    """`ref@sha256:…`; `ref#sha256:…` for one that only this engine has; empty where the Dockerfile takes none."""
    deps: ImagePart
    code: ImagePart
    ref: str | None
    """`repository@sha256:…` after a push, for `image.ref` of a workload; else null."""
    pushed: bool | None
    """Whether anything was sent; null but for `push`."""
    lock: ImageLock | None
    """After the action; null where it has nothing for the repository."""
    images: list[ListedImage] | None
    """Of `list`."""
    problems: list[Problem]
    """Warnings."""
