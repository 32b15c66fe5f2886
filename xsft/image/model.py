"""What is built and pushed, as values. `xsft.effects` does it; nothing here touches a file, an engine or a registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field


class ContextFile(Struct, frozen=True, kw_only=True):
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
    secret: str = ""
    """What in its content looks secret, e.g. `a private key`; never the value."""


class Base(Struct, frozen=True, kw_only=True):
    """The image below the dependencies."""

    ref: str
    """As it was named, without digest: `python:3.12-slim`."""
    digest: str | None = None
    """`sha256:…` of its manifest; None where it has none, because it was made on this machine."""
    image_id: str | None = None
    """The engine's own id of an image without digest."""

    @property
    def pinned(self) -> str:
        """What FROM is told."""
        return f"{self.ref}@{self.digest}" if self.digest else self.ref

    @property
    def known(self) -> str:
        """Which bytes it is, as far as is known: part of the identity, and kept in the lock."""
        return f"{self.ref}#{self.image_id}" if self.image_id and not self.digest else self.pinned


class BuildOptions(Struct, frozen=True, kw_only=True):
    """What a user can choose about an image."""

    image: str
    """Name of its folder under images/."""
    registry: str | None = None
    """Where it is pushed to, without the image's own name: `us-docker.pkg.dev/my-project/xsft`."""
    maxtext: str
    maxtext_source: str = "pypi"
    """`pypi`, `git+URL@REF`, or a folder: relative to the project where it lies in it, else absolute."""
    tunix_source: str = "pypi"
    base: str | None = None
    """Base image; None: what the Dockerfile says."""
    vllm: str | None = None
    """pip requirement; None: no vLLM."""
    code: tuple[str, ...] = ()
    """Folders whose content is put on PYTHONPATH."""
    args: Mapping[str, str] = field(default_factory=dict)
    """Further build arguments of the Dockerfiles."""
    pip_config: str | None = None
    """Absolute path of a file in the form of pip.conf."""


class DockerfilePart(Struct, frozen=True, kw_only=True):
    """One of the two Dockerfiles, read."""

    dockerfile: str
    """Its path in the context."""
    args: Mapping[str, str | None]
    """The build arguments it takes, and their defaults."""
    files: tuple[ContextFile, ...]


class Material(Struct, frozen=True, kw_only=True):
    """What a recipe is made of, read from this machine."""

    deps: DockerfilePart
    code: DockerfilePart
    base: Base | None = None
    """None where the Dockerfile takes none."""
    revision: str | None = None
    """Full commit of the user's repository."""
    dirty: bool | None = None
    maxtext_label: str = "pypi"
    """`pypi`, `git <commit>` or `tree <commit>[-dirty]`."""


class BuildSecret(Struct, frozen=True, kw_only=True):
    """Mounted while building (BuildKit `--secret`); never in a layer, an argument or the history."""

    id: str
    file: str
    """Absolute path of the file whose content it is; the value itself is never held."""


class BuildStep(Struct, frozen=True, kw_only=True):
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
    network: Literal["default", "none"] = "default"
    """While it is built. The code has none: what its tag is made of is all that it is made of."""


class Recipe(Struct, frozen=True, kw_only=True):
    """How an image comes to be: the slow dependencies, then the code on top of them."""

    image: str
    """Name of its folder under images/."""
    repository: str
    """Where it is pushed, without tag: `us-docker.pkg.dev/my-project/xsft/post-training`."""
    maxtext: str
    deps: BuildStep
    code: BuildStep
    base: str = ""
    """`Base.known`."""


class Locked(Struct, frozen=True, kw_only=True):
    """A pushed image, as the lock keeps it: what `submit` may run."""

    image: str
    repository: str
    digest: str
    """`sha256:…` of the manifest, as the registry said it."""
    maxtext: str
    deps: str
    """Tag of the dependencies' image."""
    deps_digest: str | None = None
    """`sha256:…` of its manifest: other machines pull it by that; None where the registry has it not."""
    code: str
    """Tag of the image itself."""
    pushed_at: str
    """UTC, ISO 8601."""
    commit: str | None = None
    dirty: bool | None = None
    base: str = ""
    """`Base.known`."""
    options: BuildOptions | None = None
    """What it was made with; None where that cannot be repeated from here (a folder outside the project)."""

    @property
    def ref(self) -> str:
        return f"{self.repository}@{self.digest}"
