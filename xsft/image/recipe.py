"""Plan an image from the user's options and this machine's files: what is built, and the tags. Pure.

Tags are computed from content: `deps-<hash>` and `code-<hash>`. Hashed: paths, contents, executable bits, link targets,
build arguments, platform, and the digest of the base image. Not hashed: who built it, when and from which commit,
owners and times of files (the context is sent without them). A tag tells whether something changed; what an image is,
its digest alone tells.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from xsft.image.context import ContextFile
from xsft.image.options import RUN_AS, BuildOptions

DOCKERFILE = "Dockerfile"
PLATFORM = "linux/amd64"
"""Platform of machines with TPUs."""
PIP_SECRET = "pip_conf"  # noqa: S105 - a name
LOCAL = "localhost/xsft"
"""Prefix of the images on this machine; no registry has this name, so none is pulled by mistake."""
LOCK_FILE = "requirements.txt"
"""File of the dependencies' context with the locked packages."""

IMAGE_LABEL = "dev.xsft.image"
KIND_LABEL = "dev.xsft.kind"
LOCK_LABEL = "dev.xsft.lock.sha256"
MAXTEXT_LABEL = "dev.xsft.maxtext.version"
"""Label that tells `submit` the MaxText layout of an image that xsft did not push."""
PACKAGES_LABEL = "dev.xsft.packages"
"""Label that tells the versions of PACKAGES in an image, as pins: `jax==0.11.0 libtpu==0.0.44`."""
TAG_LABEL = "dev.xsft.tag"
"""Label with the tag that an image in this machine's engine was built for. Nothing in a registry is believed for it."""
PACKAGES = (
    *("datasets", "flax", "google-tunix", "jax", "jaxlib", "libtpu", "maxtext"),
    *("orbax-checkpoint", "tokenizers", "transformers"),
)
"""Packages whose versions decide whether a run can start."""
DEFAULT_USER = "0:0"
"""XPK's TPU containers have to open the chips' device files: images/post_training/README.md, "Root"."""
DIGITS = 20
"""Number of hex digits of a tag's hash: 80 bits."""


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
        if self.image_id and not self.digest:
            return f"{self.ref}#{self.image_id}"
        return self.pinned


class DepsImage(Struct, frozen=True, kw_only=True):
    """The dependencies' image, with all inputs of its build."""

    tag: str
    """`deps-<hash>`."""
    files: tuple[ContextFile, ...]
    """The build context."""
    args: Mapping[str, str]
    labels: Mapping[str, str]
    lock_sha256: str
    """sha256 of the locked packages."""
    pip_config: str | None = None
    """Absolute path of a pip.conf, mounted while packages are installed; never in a layer, an argument or the
    history.
    """


class CodeImage(Struct, frozen=True, kw_only=True):
    """The code on top of the dependencies."""

    tag: str
    """`code-<hash>`."""
    files: tuple[ContextFile, ...]
    """`maxtext/…` and `tunix/…`: whole packages; `code/…`: the user's folders; `xsft/…`: programs of xsft."""
    user: str = DEFAULT_USER


class Recipe(Struct, frozen=True, kw_only=True):
    """An image as it would be made now."""

    image: str
    """Name of its folder under images/."""
    repository: str | None
    """Repository to push to, without tag: `us-docker.pkg.dev/my-project/xsft/post-training`."""
    maxtext: str
    base: Base | None
    """None if the Dockerfile has no argument for a base."""
    deps: DepsImage
    code: CodeImage

    def local(self, tag: str) -> str:
        """Return the image's name in this machine's engine."""
        return f"{local_name(self.image)}:{tag}"


def make_recipe(
    options: BuildOptions,
    *,
    context: tuple[ContextFile, ...],
    declared: Mapping[str, str | None],
    packages: Mapping[str, str],
    code: tuple[ContextFile, ...],
    base: Base | None,
) -> Recipe:
    """Return the recipe for options without problems. `context`, `declared`: the dependencies' files, and the
    arguments of their Dockerfile; `packages`: version of each locked package.
    """
    deps = _deps_image(options, context=context, declared=declared, packages=packages, base=base)
    user = options.args.get(RUN_AS, DEFAULT_USER)
    tag = content_tag("code", code, user=user, deps=deps.tag)
    return Recipe(
        image=options.image,
        repository=repository_in(options.registry, options.image) if options.registry else None,
        maxtext=options.maxtext,
        base=base,
        deps=deps,
        code=CodeImage(tag=tag, files=code, user=user),
    )


def repository_in(registry: str, image: str) -> str:
    """Return the image's repository in a registry: `…/xsft` -> `…/xsft/post-training`."""
    return f"{registry.rstrip('/')}/{_dash_name(image)}"


def registry_of_repository(repository: str, image: str) -> str:
    """Return the registry that `repository_in` was given."""
    return repository.removesuffix(f"/{_dash_name(image)}")


def parse_base(known: str) -> Base | None:
    """Parse `Base.known` from a lock."""
    if not known:
        return None
    ref, sign, digest = known.partition("@")
    if sign:
        return Base(ref=ref, digest=digest)
    ref, _, image_id = known.partition("#")
    return Base(ref=ref, image_id=image_id or None)


def local_name(image: str) -> str:
    """Return the image's name on this machine, without tag."""
    return f"{LOCAL}/{_dash_name(image)}"


def content_tag(kind: Literal["deps", "code"], files: Iterable[ContextFile], **inputs: object) -> str:
    """Return the tag of an image with these files; `inputs`: what else decides its content, as JSON can write it."""
    rows = [
        [file.path, file.kind, file.executable, file.sha256, file.target]
        for file in sorted(files, key=lambda file: file.path)
    ]
    text = json.dumps({"files": rows, **inputs}, sort_keys=True, separators=(",", ":"))
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def _deps_image(
    options: BuildOptions,
    *,
    context: tuple[ContextFile, ...],
    declared: Mapping[str, str | None],
    packages: Mapping[str, str],
    base: Base | None,
) -> DepsImage:
    lock = next((file.sha256 for file in context if file.path == LOCK_FILE), "")
    values = {
        "BASE_IMAGE": base.pinned if base else "",
        "BASE_DIGEST": (base.digest if base else None) or "",
        "LOCK_SHA256": lock,
        "MAXTEXT_VERSION": options.maxtext,
        "VLLM_REQUIREMENT": options.vllm or "",
        **options.args,
    }
    # Only those that the Dockerfile has, because users' own need not have all; an empty one is its default.
    args = {name: value for name, value in sorted(values.items()) if name in declared and value}
    labels = {IMAGE_LABEL: options.image, KIND_LABEL: "deps", MAXTEXT_LABEL: options.maxtext}
    if lock:
        labels[LOCK_LABEL] = lock
    if pins := _package_pins(packages, args):
        labels[PACKAGES_LABEL] = pins
    tag = content_tag(
        "deps",
        context,
        dockerfile=DOCKERFILE,
        args=args,
        labels=labels,  # all of them, so that one tag never means two sets of dependencies
        platform=PLATFORM,
        base=base.known if base else "",
    )
    return DepsImage(
        tag=tag,
        files=context,
        args=args,
        labels={**labels, TAG_LABEL: tag},
        lock_sha256=lock,
        pip_config=options.pip_config,
    )


def _package_pins(packages: Mapping[str, str], args: Mapping[str, str]) -> str:
    """Return the label's pins; without a package that another requirement than the lock's replaces."""
    replaced = {"maxtext": args.get("MAXTEXT_REQUIREMENT"), "google-tunix": args.get("TUNIX_REQUIREMENT")}
    return " ".join(f"{name}=={packages[name]}" for name in PACKAGES if name in packages and not replaced.get(name))


def _dash_name(image: str) -> str:
    return image.replace("_", "-")
