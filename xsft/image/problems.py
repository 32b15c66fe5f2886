"""What is wrong with an image's options, before anything is read, asked or built. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from xsft.catalog import releases
from xsft.image.model import BuildOptions, Material
from xsft.image.recipe import OWN
from xsft.image.reference import legacy_warning, parse_reference, parse_repository
from xsft.problems import Problem, error
from xsft.spec.secrets import looks_secret, names_secret

BUILDABLE = frozenset({releases.DEFAULT})
"""MaxText releases that images/post_training/requirements.txt holds, hash-locked and tested."""
IMAGE_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")

_USERINFO = re.compile(r"://[^/@]*[:@][^/]*@|://[^/@]+:[^/@]*@")
_URL = r"(?:git\+)?https?://[-A-Za-z0-9._~:/@%+#=]+"
_VERSIONS = r"(?:(?:===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9.+!*_-]*(?:, ?)?)+"
_REQUIREMENT = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]+\])? ?(?:{_VERSIONS}|@ ?{_URL})?")
"""source: pip documentation, "Requirement specifiers"; no markers: an image has one Python and one platform."""
_GIT = re.compile(r"git\+[A-Za-z0-9][-A-Za-z0-9._~:/@%+]*")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(?::[a-z0-9]+)?(?:=[A-Za-z0-9.+:~-]+)?")
"""source: Debian Policy 5.6.1 and 5.6.12; `=` as apt-get takes a version."""


def option_problems(options: BuildOptions) -> tuple[Problem, ...]:
    """`image-name`, `image-maxtext`, `image-reference`, `image-legacy-registry`, `image-source`, `image-argument`."""
    return (
        *_name(options),
        *_maxtext(options),
        *_references(options),
        *_sources(options),
        *_given_arguments(options),
        *_requirements(options),
    )


def material_problems(options: BuildOptions, material: Material) -> tuple[Problem, ...]:
    """`image-argument` for one that neither Dockerfile takes: it would be given for nothing."""
    known = {**material.deps.args, **material.code.args}
    asked = {"BASE_IMAGE": options.base, "VLLM_REQUIREMENT": options.vllm, **options.args}
    missing = [name for name, value in asked.items() if value is not None and name not in known]
    return tuple(_unknown_argument(name, known) for name in missing)


def _name(options: BuildOptions) -> Iterator[Problem]:
    if not IMAGE_NAME.fullmatch(options.image):
        message = f"{options.image!r} cannot be an image: it is the name of a folder under images/, in lower case."
        yield error("image-name", "", message, "Take letters, digits, dashes and underscores: post_training.")


def _maxtext(options: BuildOptions) -> Iterator[Problem]:
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


def _references(options: BuildOptions) -> Iterator[Problem]:
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


def _sources(options: BuildOptions) -> Iterator[Problem]:
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
        elif not _GIT.fullmatch(text):
            message = f"{what}: {text!r} is no address: letters, digits and . _ ~ : / @ % + - are all that it may have."
            yield error("image-source", "", message, "Write git+https://HOST/OWNER/REPOSITORY@COMMIT.")


def _given_arguments(options: BuildOptions) -> Iterator[Problem]:
    for name, value in options.args.items():
        if name in OWN:
            yield error("image-argument", "", f"--arg {name} is given by xsft itself.", "Use the option for it.")
        elif names_secret(name) or looks_secret(value):
            message = f"--arg {name} looks like a secret: build arguments stay in the image's history."
            yield error("image-argument", "", message, "A package index's login goes into --pip-config FILE.")


def _requirements(options: BuildOptions) -> Iterator[Problem]:
    """What pip and apt-get are told while the image is built: a requirement or package, never an option of theirs."""
    given = {"--vllm": options.vllm, **{f"--arg {n}": v for n, v in options.args.items() if n.endswith("_REQUIREMENT")}}
    for what, text in given.items():
        if text and not _REQUIREMENT.fullmatch(text):
            message = f"{what}: {text!r} is no pip requirement: a name, its [extras], and versions or @ and an address."
            yield error("image-argument", "", message, "Write it as vllm==0.11.0, or vllm @ https://HOST/FILE.whl.")
        elif text and (_USERINFO.search(text) or looks_secret(text)):
            message = f"{what} holds a login, which would stay in the image's history."
            yield error("image-argument", "", message, "A package index's login goes into --pip-config FILE.")
    wrong = [word for word in options.args.get("APT_PACKAGES", "").split(" ") if word and not _PACKAGE.fullmatch(word)]
    if wrong:
        message = (
            f"--arg APT_PACKAGES: {wrong[0]!r} is no Debian package: lower-case letters, digits and + - . (=VERSION)."
        )
        yield error("image-argument", "", message, "Name packages, separated by spaces: APT_PACKAGES='git curl'.")


def _unknown_argument(name: str, known: Mapping[str, str | None]) -> Problem:
    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    message = (
        f"No Dockerfile of the image takes the argument {name}.{hint} Taken: {', '.join(sorted(known)) or 'none'}."
    )
    return error("image-argument", "", message, f"Leave it out, or write ARG {name} into the Dockerfile.")
