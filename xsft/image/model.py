"""What is built and pushed, as values. `xsft.effects` does it; nothing here touches a file, an engine or a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ContextFile:
    """One entry of a build context."""

    path: str
    """In the context, with `/`."""
    kind: Literal["file", "link", "folder"]
    size: int = 0
    """Bytes."""
    executable: bool = False
    sha256: str = ""
    """Of the content; 64 hex digits; files only."""
    target: str | None = None
    """Where a link leads, as it is written."""
    dangling: bool = False
    """A link that leads nowhere, or out of the context."""
    source: str = ""
    """Absolute path on this machine that the bytes are read from."""


@dataclass(frozen=True, kw_only=True)
class BuildSecret:
    """Mounted while building (BuildKit `--secret`); never in a layer, an argument or the history."""

    id: str
    file: str
    """Absolute path of the file whose content it is; the value itself is never held."""


@dataclass(frozen=True, kw_only=True)
class BuildStep:
    """One image to build: everything the engine is told."""

    name: Literal["deps", "code"]
    tag: str
    """`deps-<hash>` or `code-<hash>`; content decides."""
    dockerfile: str
    """Path in the context."""
    files: tuple[ContextFile, ...]
    """The context."""
    args: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[BuildSecret, ...] = ()
    platform: str = "linux/amd64"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How an image comes to be: the slow dependencies, then the code on top of them."""

    image: str
    """Name of its folder under images/."""
    repository: str
    """Where it is pushed, without tag: `us-docker.pkg.dev/my-project/xsft/post-training`."""
    maxtext: str
    deps: BuildStep
    code: BuildStep


@dataclass(frozen=True, kw_only=True)
class Locked:
    """A pushed image, as the lock keeps it: what `submit` may run."""

    image: str
    repository: str
    digest: str
    """`sha256:…` of the manifest, as the registry said it."""
    maxtext: str
    deps: str
    """Tag of the dependencies' image."""
    code: str
    """Tag of the image itself."""
    pushed_at: str
    """UTC, ISO 8601."""
    commit: str | None = None
    dirty: bool | None = None

    @property
    def ref(self) -> str:
        return f"{self.repository}@{self.digest}"
