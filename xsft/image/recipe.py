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


class ImageFiles(Struct, frozen=True, kw_only=True):
    """What an image is made from, as it was read from images/ and from the user's folders."""

    context: tuple[ContextFile, ...]
    """The build context of the dependencies."""
    arguments: Mapping[str, str | None]
    """Build arguments of their Dockerfile, with their defaults."""
    packages: Mapping[str, str]
    """Version of each locked package."""
    code: tuple[ContextFile, ...]
    """`CodeImage.files`."""


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
    options: BuildOptions
    base: str
    """Base image of the dependencies: `ref@sha256:…`, or `ref#sha256:…` with the engine's id of an image that is in no
    registry. Empty if the Dockerfile has no argument for it.
    """
    deps: DepsImage
    code: CodeImage

    def local(self, tag: str) -> str:
        """Return the image's name in this machine's engine, where no registry is named so and none is asked for it."""
        return f"{LOCAL}/{_dash_name(self.image)}:{tag}"


def make_recipe(options: BuildOptions, files: ImageFiles, *, image: str, registry: str | None, base: str) -> Recipe:
    """Return the recipe for options without problems."""
    deps = _deps_image(options, files, image=image, base=base)
    user = options.args.get(RUN_AS, DEFAULT_USER)
    tag = content_tag("code", files.code, user=user, deps=deps.tag)
    return Recipe(
        image=image,
        repository=repository_in(registry, image) if registry else None,
        options=options,
        base=base,
        deps=deps,
        code=CodeImage(tag=tag, files=files.code, user=user),
    )


def repository_in(registry: str, image: str) -> str:
    """Return the image's repository in a registry: `…/xsft` -> `…/xsft/post-training`."""
    return f"{registry.rstrip('/')}/{_dash_name(image)}"


def registry_of_repository(repository: str, image: str) -> str:
    """Return the registry that `repository_in` was given."""
    return repository.removesuffix(f"/{_dash_name(image)}")


def content_tag(kind: Literal["deps", "code"], files: Iterable[ContextFile], **inputs: object) -> str:
    """Return the tag of an image with these files; `inputs`: what else decides its content, as JSON can write it."""
    rows = [
        [file.path, file.kind, file.executable, file.sha256, file.target]
        for file in sorted(files, key=lambda file: file.path)
    ]
    text = json.dumps({"files": rows, **inputs}, sort_keys=True, separators=(",", ":"))
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def _deps_image(options: BuildOptions, files: ImageFiles, *, image: str, base: str) -> DepsImage:
    lock = next((file.sha256 for file in files.context if file.path == LOCK_FILE), "")
    values = {
        "BASE_IMAGE": base.partition("#")[0],
        "BASE_DIGEST": base.partition("@")[2],
        "LOCK_SHA256": lock,
        "MAXTEXT_VERSION": options.release,
        "VLLM_REQUIREMENT": options.vllm or "",
        **options.args,
    }
    # Only those that the Dockerfile has, because users' own need not have all; an empty one is its default.
    args = {name: text for name, text in sorted(values.items()) if name in files.arguments and text}
    # The label has no pin of a package that another requirement than the lock's replaces.
    replaced = {"maxtext": args.get("MAXTEXT_REQUIREMENT"), "google-tunix": args.get("TUNIX_REQUIREMENT")}
    pins = [f"{name}=={files.packages[name]}" for name in PACKAGES if name in files.packages and not replaced.get(name)]
    labels = {
        IMAGE_LABEL: image,
        KIND_LABEL: "deps",
        MAXTEXT_LABEL: options.release,
        LOCK_LABEL: lock,
        PACKAGES_LABEL: " ".join(pins),
    }
    labels = {name: text for name, text in labels.items() if text}
    tag = content_tag(
        "deps",
        files.context,
        dockerfile=DOCKERFILE,
        args=args,
        labels=labels,  # all of them, so that one tag never means two sets of dependencies
        platform=PLATFORM,
        base=base,
    )
    return DepsImage(tag=tag, files=files.context, args=args, labels={**labels, TAG_LABEL: tag}, lock_sha256=lock)


def _dash_name(image: str) -> str:
    return image.replace("_", "-")
