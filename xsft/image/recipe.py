"""Plan the two builds of an image from the user's options and this machine's files. Pure.

Build arguments and secrets have the names of images/post_training/README.md.

Tags are computed from content: `deps-<hash>` and `code-<hash>`. Hashed: paths, contents, executable bits, link targets,
build arguments, platform, and the digest of the base image. Not hashed: who built it, when and from which commit,
owners and times of files (the context is sent without them). Two commits with the same files give the same image, built
once; its labels name the first commit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Literal

from xsft.image.model import Base, BuildOptions, BuildSecret, BuildStep, ContextFile, DockerfilePart, Material, Recipe

DEPS_DOCKERFILE = "Dockerfile"
CODE_DOCKERFILE = "code.Dockerfile"
PLATFORM = "linux/amd64"
"""Platform of machines with TPUs."""
PIP_SECRET = "pip_conf"  # noqa: S105 - a name
LOCAL = "localhost/xsft"
"""Prefix of the images on this machine; no registry has this name, so none is pulled by mistake."""

IMAGE_LABEL = "dev.xsft.image"
KIND_LABEL = "dev.xsft.kind"
LOCK_LABEL = "dev.xsft.lock.sha256"
MAXTEXT_LABEL = "dev.xsft.maxtext.version"
"""Label that tells `submit` the MaxText layout of an image that xsft did not push."""
PACKAGES_LABEL = "dev.xsft.packages"
"""Label that tells the versions of PACKAGES in an image, as pins: `jax==0.11.0 libtpu==0.0.44`."""
PACKAGES = (
    *("datasets", "flax", "google-tunix", "jax", "jaxlib", "libtpu", "maxtext"),
    *("orbax-checkpoint", "tokenizers", "transformers"),
)
"""Packages whose versions decide whether a run can start."""
EVALUATE_FILE = "xsft/evaluate.zip"
"""Path of the evaluation program in the code's context."""
EVALUATE_ARG = "EVALUATE_SHA256"
"""Argument with which a Dockerfile says that its image carries the evaluation program."""
TAG_LABEL = "dev.xsft.tag"
"""Label with the tag the image was built for: anyone who may push can move a tag to another image."""

NOT_IDENTITY = frozenset({"DEPS_IMAGE", "REVISION", "DIRTY", "MAXTEXT_SOURCE"})
"""Arguments of the code layer that become labels, or that its identity already covers."""
OWN = NOT_IDENTITY | {"BASE_IMAGE", "BASE_DIGEST", "LOCK_SHA256", "MAXTEXT_VERSION", "VLLM_REQUIREMENT", EVALUATE_ARG}
"""Arguments that xsft sets itself."""
DIGITS = 20
"""Number of hex digits of a tag's hash: 80 bits."""


def make_recipe(options: BuildOptions, material: Material) -> Recipe:
    """Return both builds with their tags; the options must have passed `xsft.image.problems.option_problems`."""
    deps = _deps(options, material)
    return Recipe(
        image=options.image,
        repository=repository_of(options) or local_name(options.image),
        maxtext=options.maxtext,
        deps=deps,
        code=_code(options, material, deps=deps),
        base=material.base.known if material.base else "",
    )


def repository_in(registry: str, image: str) -> str:
    """Return the image's repository in a registry: `…/xsft` -> `…/xsft/post-training`."""
    return f"{registry.rstrip('/')}/{_dash_name(image)}"


def base_of(known: str) -> Base | None:
    """Parse `Base.known` from a lock."""
    if not known:
        return None
    ref, at, digest = known.partition("@")
    if at:
        return Base(ref=ref, digest=digest)
    ref, _, image_id = known.partition("#")
    return Base(ref=ref, image_id=image_id or None)


def repository_of(options: BuildOptions) -> str | None:
    """Return the repository to push to; None without a registry."""
    return repository_in(options.registry, options.image) if options.registry else None


def local_name(image: str) -> str:
    """Return the image's name on this machine, without tag."""
    return f"{LOCAL}/{_dash_name(image)}"


def differs(step: BuildStep, labels: Mapping[str, str]) -> str:
    """Return how an image with these labels differs from the step's; empty if it does not."""
    for name, wanted in sorted(step.labels.items()):
        if name not in labels:
            return f"it has no label {name}"
        if labels[name] != wanted:
            return f"its label {name} is {labels[name][:80]!r}, not {wanted!r}"
    return ""


def _image_labels(options: BuildOptions, *, kind: str, lock: str) -> dict[str, str]:
    """Return the labels that xsft sets on every image."""
    said = {IMAGE_LABEL: options.image, KIND_LABEL: kind, MAXTEXT_LABEL: options.maxtext}
    return {**said, LOCK_LABEL: lock} if lock else said


def _packages_label(pinned: Mapping[str, str], args: Mapping[str, str]) -> dict[str, str]:
    """Return the label; without a package that another requirement than the lock's replaces."""
    replaced = {"maxtext": args.get("MAXTEXT_REQUIREMENT"), "google-tunix": args.get("TUNIX_REQUIREMENT")}
    told = [f"{name}=={pinned[name]}" for name in PACKAGES if name in pinned and not replaced.get(name)]
    return {PACKAGES_LABEL: " ".join(told)} if told else {}


def _sha256_of(path: str, part: DockerfilePart) -> str:
    """Return the hash of a file of the context; empty if it has none of that path."""
    return next((f.sha256 for f in part.files if f.path == path), "")


def _lock_digest(material: Material) -> str:
    """Return the sha256 of the locked packages; empty for an image without a lock."""
    return _sha256_of("requirements.txt", material.deps)


def _deps(options: BuildOptions, material: Material) -> BuildStep:
    base, lock = material.base, _lock_digest(material)
    given = {
        "BASE_IMAGE": base.pinned if base else "",
        "BASE_DIGEST": (base.digest if base else None) or "",
        "LOCK_SHA256": lock,
        "MAXTEXT_VERSION": options.maxtext,
        "VLLM_REQUIREMENT": options.vllm or "",
        **options.args,
    }
    args = _declared_arguments(given, material.deps)
    labels = {**_image_labels(options, kind="deps", lock=lock), **_packages_label(material.packages, args)}
    tag = content_tag(
        "deps",
        material.deps.files,
        dockerfile=material.deps.dockerfile,
        args=args,
        labels=labels,  # all of them, so that one tag never means two sets of dependencies
        platform=PLATFORM,
        base=base.known if base else "",
    )
    secrets = (BuildSecret(id=PIP_SECRET, file=options.pip_config),) if options.pip_config else ()
    return BuildStep(
        name="deps",
        tag=tag,
        dockerfile=material.deps.dockerfile,
        files=material.deps.files,
        args=args,
        labels={**labels, TAG_LABEL: tag},
        secrets=secrets,
        platform=PLATFORM,
    )


def _code(options: BuildOptions, material: Material, *, deps: BuildStep) -> BuildStep:
    dirty = "" if material.dirty is None else str(material.dirty).lower()
    given = {
        "DEPS_IMAGE": f"{local_name(options.image)}:{deps.tag}",
        "REVISION": material.revision or "",
        "DIRTY": dirty,
        "MAXTEXT_SOURCE": material.maxtext_label,
        EVALUATE_ARG: _sha256_of(EVALUATE_FILE, material.code),
        **options.args,
    }
    args = _declared_arguments(given, material.code)
    counted = {name: value for name, value in args.items() if name not in NOT_IDENTITY}
    files, dockerfile = material.code.files, material.code.dockerfile
    tag = content_tag("code", files, dockerfile=dockerfile, args=counted, platform=PLATFORM, deps=deps.tag)
    return BuildStep(
        name="code",
        tag=tag,
        dockerfile=dockerfile,
        files=files,
        args=args,
        labels={**_image_labels(options, kind="code", lock=_lock_digest(material)), TAG_LABEL: tag},
        platform=PLATFORM,
        network="none",
    )


def _declared_arguments(given: Mapping[str, str], part: DockerfilePart) -> dict[str, str]:
    """Keep only arguments that the Dockerfile has, because users' images need not have all; drop empty values
    (defaults).
    """
    return {name: value for name, value in sorted(given.items()) if name in part.args and value}


def _dash_name(image: str) -> str:
    return image.replace("_", "-")


def content_tag(kind: Literal["deps", "code"], files: Iterable[ContextFile], **told: object) -> str:
    """Return the tag of an image with this context; `told`: what else decides its content, as JSON can write it."""
    rows = [[f.path, f.kind, f.executable, f.sha256, f.target] for f in sorted(files, key=lambda f: f.path)]
    text = json.dumps({"files": rows, **told}, sort_keys=True, separators=(",", ":"))
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"
