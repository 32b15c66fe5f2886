"""From what a user chose and what lies on this machine to the two builds. Pure; build arguments and secrets are called
what images/post_training/README.md calls them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from xsft.catalog import releases
from xsft.image.identity import code_tag, deps_tag
from xsft.image.model import Base, BuildSecret, BuildStep, Material, Options, Part, Recipe
from xsft.image.reference import legacy_warning, parse_reference, parse_repository
from xsft.problems import Problem, error
from xsft.spec.secrets import looks_secret, names_secret

DEPS_DOCKERFILE = "Dockerfile"
CODE_DOCKERFILE = "code.Dockerfile"
PLATFORM = "linux/amd64"
"""What the machines with TPUs are."""
PIP_SECRET = "pip_conf"  # noqa: S105 - a name
BUILDABLE = frozenset({releases.DEFAULT})
"""MaxText releases that images/post_training/requirements.txt holds, hash-locked and tested."""
LOCAL = "localhost/xsft"
"""Prefix of the images on this machine: a name under which nothing is ever pulled by mistake."""

IMAGE_LABEL = "dev.xsft.image"
KIND_LABEL = "dev.xsft.kind"
MAXTEXT_LABEL = "dev.xsft.maxtext.version"
"""By which `submit` tells the layout of an image that somebody else pushed."""

NOT_IDENTITY = frozenset({"DEPS_IMAGE", "REVISION", "DIRTY", "MAXTEXT_SOURCE"})
"""Arguments of the code layer that become labels, or that name what its identity has already."""
OWN = NOT_IDENTITY | {"BASE_IMAGE", "BASE_DIGEST", "LOCK_SHA256", "MAXTEXT_VERSION", "VLLM_REQUIREMENT"}
"""Arguments that xsft itself gives."""

IMAGE_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_USERINFO = re.compile(r"://[^/@]*[:@][^/]*@|://[^/@]+:[^/@]*@")


def make_recipe(options: Options, material: Material) -> Recipe:
    """The builds with their tags; `option_problems` come first."""
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
    """The registry's folder and the image's name in it: `…/xsft` -> `…/xsft/post-training`."""
    return f"{registry.rstrip('/')}/{_dashed(image)}"


def base_of(known: str) -> Base | None:
    """`Base.known`, read back from a lock."""
    if not known:
        return None
    ref, at, digest = known.partition("@")
    if at:
        return Base(ref=ref, digest=digest)
    ref, _, image_id = known.partition("#")
    return Base(ref=ref, image_id=image_id or None)


def repository_of(options: Options) -> str | None:
    """None without a registry."""
    return repository_in(options.registry, options.image) if options.registry else None


def local_name(image: str) -> str:
    """What the image is called on this machine, without tag."""
    return f"{LOCAL}/{_dashed(image)}"


def labels_of(options: Options, *, kind: str) -> dict[str, str]:
    """What every image of xsft says of itself, whatever its Dockerfile says."""
    return {IMAGE_LABEL: options.image, KIND_LABEL: kind, MAXTEXT_LABEL: options.maxtext}


def option_problems(options: Options) -> tuple[Problem, ...]:
    """`image-name`, `image-maxtext`, `image-reference`, `image-legacy-registry`, `image-source`, `image-argument`."""
    return (*_name(options), *_maxtext(options), *_references(options), *_sources(options), *_given_arguments(options))


def material_problems(options: Options, material: Material) -> tuple[Problem, ...]:
    """`image-argument` for one that neither Dockerfile takes: it would be given for nothing."""
    known = {**material.deps.args, **material.code.args}
    asked = {"BASE_IMAGE": options.base, "VLLM_REQUIREMENT": options.vllm, **options.args}
    missing = [name for name, value in asked.items() if value is not None and name not in known]
    return tuple(_unknown_argument(name, known) for name in missing)


def _deps(options: Options, material: Material) -> BuildStep:
    base = material.base
    lock = next((f.sha256 for f in material.deps.files if f.path == "requirements.txt"), "")
    given = {
        "BASE_IMAGE": base.pinned if base else "",
        "BASE_DIGEST": (base.digest if base else None) or "",
        "LOCK_SHA256": lock,
        "MAXTEXT_VERSION": options.maxtext,
        "VLLM_REQUIREMENT": options.vllm or "",
        **options.args,
    }
    args, labels = _declared(given, material.deps), labels_of(options, kind="deps")
    tag = deps_tag(
        material.deps.files,
        dockerfile=material.deps.dockerfile,
        args=args,
        labels=labels,
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
        labels=labels,
        secrets=secrets,
        platform=PLATFORM,
    )


def _code(options: Options, material: Material, *, deps: BuildStep) -> BuildStep:
    dirty = "" if material.dirty is None else str(material.dirty).lower()
    given = {
        "DEPS_IMAGE": f"{local_name(options.image)}:{deps.tag}",
        "REVISION": material.revision or "",
        "DIRTY": dirty,
        "MAXTEXT_SOURCE": material.maxtext_label,
        **options.args,
    }
    args = _declared(given, material.code)
    counted = {name: value for name, value in args.items() if name not in NOT_IDENTITY}
    files, dockerfile = material.code.files, material.code.dockerfile
    tag = code_tag(files, dockerfile=dockerfile, args=counted, platform=PLATFORM, deps=deps.tag)
    return BuildStep(
        name="code",
        tag=tag,
        dockerfile=dockerfile,
        files=files,
        args=args,
        labels=labels_of(options, kind="code"),
        platform=PLATFORM,
        network="none",
    )


def _declared(given: Mapping[str, str], part: Part) -> dict[str, str]:
    """Only what the Dockerfile takes: an image of one's own need not take all of them. An empty value is a default."""
    return {name: value for name, value in sorted(given.items()) if name in part.args and value}


def _dashed(image: str) -> str:
    return image.replace("_", "-")


def _name(options: Options) -> Iterator[Problem]:
    if not IMAGE_NAME.fullmatch(options.image):
        message = f"{options.image!r} cannot be an image: it is the name of a folder under images/, in lower case."
        yield error("image-name", "", message, "Take letters, digits, dashes and underscores: post_training.")


def _maxtext(options: Options) -> Iterator[Problem]:
    if options.maxtext in BUILDABLE:
        return
    try:
        found = releases.release(options.maxtext)
    except ValueError as unknown:
        yield error("image-maxtext", "", str(unknown), f"Take --maxtext {releases.DEFAULT}.")
        return
    message = (
        f"MaxText {found.version} ({found.layout} layout) is not built here: the locked requirements are those of "
        f"{', '.join(sorted(BUILDABLE))}."
    )
    fix = f"Name an image that has it in the workload: image: {{ref: …@sha256:…, maxtext: {found.version!r}}}."
    yield error("image-maxtext", "", message, fix)


def _references(options: Options) -> Iterator[Problem]:
    for text, parse, what in (
        (options.registry, parse_repository, "--registry"),
        (options.base, parse_reference, "--base"),
    ):
        if text is None:
            continue
        try:
            parse(text)
        except ValueError as wrong:
            yield error("image-reference", "", f"{what}: {wrong}", "Correct it.")
        legacy = legacy_warning(text, where="")
        yield from (legacy,) if legacy else ()


def _sources(options: Options) -> Iterator[Problem]:
    for text, what in ((options.maxtext_source, "--maxtext-source"), (options.tunix_source, "--tunix-source")):
        if not text.startswith("git+"):
            continue
        url, at, ref = text.removeprefix("git+").rpartition("@")
        if not at or not ref or "://" not in url:
            message = f"{what}: {text!r} does not name a commit."
            yield error(
                "image-source", "", message, "Write git+https://HOST/OWNER/REPOSITORY@COMMIT, a tag or a branch."
            )
        elif _USERINFO.search(url) or looks_secret(text):
            message = f"{what} holds a login, which would be in the shell's history."
            yield error("image-source", "", message, "Leave it out: git's own credential helper is asked.")


def _given_arguments(options: Options) -> Iterator[Problem]:
    for name, value in options.args.items():
        if name in OWN:
            yield error("image-argument", "", f"--arg {name} is given by xsft itself.", "Use the option for it.")
        elif names_secret(name) or looks_secret(value):
            message = f"--arg {name} looks like a secret: build arguments stay in the image's history."
            yield error("image-argument", "", message, "A package index's login goes into --pip-config FILE.")


def _unknown_argument(name: str, known: Mapping[str, str | None]) -> Problem:
    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    message = (
        f"No Dockerfile of the image takes the argument {name}.{hint} Taken: {', '.join(sorted(known)) or 'none'}."
    )
    return error("image-argument", "", message, f"Leave it out, or write ARG {name} into the Dockerfile.")
