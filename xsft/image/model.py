"""Values that describe what is built and pushed. `xsft.effects` acts on them; this module is pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field


class ContextFile(Struct, frozen=True, kw_only=True):
    """One entry of a build context."""

    path: str
    """Path in the context, with `/`."""
    kind: Literal["file", "link", "folder"]
    size: int = 0
    """Size in bytes."""
    executable: bool = False
    sha256: str = ""
    """Hash of the content, 64 hex digits; files only."""
    target: str | None = None
    """Target of a link, as written."""
    dangling: bool = False
    """A link whose target is missing or outside the context."""
    source: str = ""
    """Absolute path of the file on this machine."""
    secret: str = ""
    """Kind of secret that the content looks like, e.g. `a private key`; never the value."""


class Base(Struct, frozen=True, kw_only=True):
    """The base image of the dependencies."""

    ref: str
    """Reference without digest: `python:3.12-slim`."""
    digest: str | None = None
    """Digest of its manifest, `sha256:…`; None for an image built on this machine."""
    image_id: str | None = None
    """The engine's id of an image without digest."""

    @property
    def pinned(self) -> str:
        """The reference for FROM."""
        return f"{self.ref}@{self.digest}" if self.digest else self.ref

    @property
    def known(self) -> str:
        """Return what identifies the base image, as far as known; part of the tag's hash, and kept in the lock."""
        return f"{self.ref}#{self.image_id}" if self.image_id and not self.digest else self.pinned


class BuildOptions(Struct, frozen=True, kw_only=True):
    """The options of an image that a user can set."""

    image: str
    """Name of its folder under images/."""
    registry: str | None = None
    """Registry to push to, without the image's name: `us-docker.pkg.dev/my-project/xsft`."""
    maxtext: str
    maxtext_source: str = "pypi"
    """`pypi`, `git+URL@REF`, or a folder: relative inside the project, else absolute."""
    tunix_source: str = "pypi"
    base: str | None = None
    """Base image; None for the Dockerfile's default."""
    vllm: str | None = None
    """pip requirement; None for no vLLM."""
    code: tuple[str, ...] = ()
    """Folders whose content is put on PYTHONPATH."""
    args: Mapping[str, str] = field(default_factory=dict)
    """Additional build arguments."""
    pip_config: str | None = None
    """Absolute path of a file in pip.conf format."""


class DockerfilePart(Struct, frozen=True, kw_only=True):
    """One of the two Dockerfiles, parsed."""

    dockerfile: str
    """Its path in the context."""
    args: Mapping[str, str | None]
    """Its build arguments and their defaults."""
    files: tuple[ContextFile, ...]


class Material(Struct, frozen=True, kw_only=True):
    """The inputs of a recipe, read from this machine."""

    deps: DockerfilePart
    code: DockerfilePart
    base: Base | None = None
    """None if the Dockerfile has no argument for a base."""
    revision: str | None = None
    """Full commit of the user's repository."""
    dirty: bool | None = None
    maxtext_label: str = "pypi"
    """`pypi`, `git <commit>` or `tree <commit>[-dirty]`."""
    packages: Mapping[str, str] = {}
    """Version of each package in the lock, by name."""


class BuildSecret(Struct, frozen=True, kw_only=True):
    """A secret mounted during the build (BuildKit `--secret`); never in a layer, an argument or the history."""

    id: str
    file: str
    """Absolute path of the file that holds the secret; xsft never holds the value."""


class BuildStep(Struct, frozen=True, kw_only=True):
    """One image to build, with all inputs of the engine."""

    name: Literal["deps", "code"]
    tag: str
    """`deps-<hash>` or `code-<hash>`, computed from content."""
    dockerfile: str
    """Path in the context."""
    files: tuple[ContextFile, ...]
    """The build context."""
    args: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[BuildSecret, ...] = ()
    platform: str = "linux/amd64"
    network: Literal["default", "none"] = "default"
    """Network access during the build. The code's image has none, so that its tag covers all its inputs."""


class Recipe(Struct, frozen=True, kw_only=True):
    """The two builds of an image: the slow dependencies, then the code on top of them."""

    image: str
    """Name of its folder under images/."""
    repository: str
    """Repository to push to, without tag: `us-docker.pkg.dev/my-project/xsft/post-training`."""
    maxtext: str
    deps: BuildStep
    code: BuildStep
    base: str = ""
    """`Base.known`."""


class LockedImage(Struct, frozen=True, kw_only=True):
    """A pushed image in the lock, which `submit` may run."""

    image: str
    repository: str
    digest: str
    """Digest of the manifest, `sha256:…`, as the registry returned it."""
    maxtext: str
    deps: str
    """Tag of the dependencies' image."""
    deps_digest: str | None = None
    """Digest of its manifest, by which other machines pull it; None if it is not in the registry."""
    code: str
    """Tag of the image."""
    pushed_at: str
    """UTC, ISO 8601."""
    commit: str | None = None
    dirty: bool | None = None
    base: str = ""
    """`Base.known`."""
    evaluate: str | None = None
    """sha256 of the evaluation program in the image; None: it has none."""
    options: BuildOptions | None = None
    """Options of the build; None if they cannot be repeated here (a folder outside the project)."""

    @property
    def ref(self) -> str:
        return f"{self.repository}@{self.digest}"
