"""Check an image's options before anything is read or built. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from xsft.base.forms import IMAGE_NAME
from xsft.base.problems import Problem, error
from xsft.base.secrets import looks_secret, names_secret
from xsft.catalog import releases
from xsft.image.model import BuildOptions, Material
from xsft.image.recipe import OWN
from xsft.image.reference import legacy_warning, parse_reference, parse_repository

BUILDABLE = frozenset({releases.DEFAULT})
"""MaxText releases whose hash-locked requirements are in images/post_training/requirements.txt, tested."""

_USERINFO = re.compile(r"://[^/@]*[:@][^/]*@|://[^/@]+:[^/@]*@")
_URL = r"(?:git\+)?https?://[-A-Za-z0-9._~:/@%+#=]+"
_VERSIONS = r"(?:(?:===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9.+!*_-]*(?:, ?)?)+"
_REQUIREMENT = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]+\])? ?(?:{_VERSIONS}|@ ?{_URL})?")
"""source: pip documentation, "Requirement specifiers"; without markers, because an image has one Python and one
platform.
"""
_GIT = re.compile(r"git\+[A-Za-z0-9][-A-Za-z0-9._~:/@%+]*")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(?::[a-z0-9]+)?(?:=[A-Za-z0-9.+:~-]+)?")
"""source: Debian Policy 5.6.1 and 5.6.12; `=` as in `apt-get install NAME=VERSION`."""


def option_problems(options: BuildOptions) -> tuple[Problem, ...]:
    """Return the problems `image-name`, `image-maxtext`, `image-reference`, `image-legacy-registry`, `image-source` and
    `image-argument`.
    """
    return (
        *_check_image_name(options),
        *_maxtext(options),
        *_references(options),
        *_sources(options),
        *_given_arguments(options),
        *_requirements(options),
    )


def material_problems(options: BuildOptions, material: Material) -> tuple[Problem, ...]:
    """Return `image-argument` for each argument that no Dockerfile takes."""
    known = {**material.deps.args, **material.code.args}
    asked = {"BASE_IMAGE": options.base, "VLLM_REQUIREMENT": options.vllm, **options.args}
    missing = [name for name, value in asked.items() if value is not None and name not in known]
    return tuple(_unknown_argument(name, known) for name in missing)


def _check_image_name(options: BuildOptions) -> Iterator[Problem]:
    if not re.fullmatch(IMAGE_NAME, options.image):
        message = f"{options.image!r} is not a valid image name: it must be a lower-case folder name under images/."
        yield error("image-name", "", message, "Use letters, digits, dashes and underscores: post_training.")


def _maxtext(options: BuildOptions) -> Iterator[Problem]:
    if options.maxtext in BUILDABLE:
        return
    try:
        found = releases.release(options.maxtext)
    except ValueError as unknown:
        yield error("image-maxtext", "", str(unknown), f"Use --maxtext {releases.DEFAULT}.")
        return
    message = (
        f"MaxText {found.version} ({found.layout} layout) cannot be built here: the locked requirements are for "
        f"{', '.join(sorted(BUILDABLE))}."
    )
    fix = f"Set an image that has it in the workload: image: {{ref: …@sha256:…, maxtext: {found.version!r}}}."
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
        if legacy := legacy_warning(text, where=""):
            yield legacy


def _sources(options: BuildOptions) -> Iterator[Problem]:
    for text, what in ((options.maxtext_source, "--maxtext-source"), (options.tunix_source, "--tunix-source")):
        if not text.startswith("git+"):
            continue
        url, at, ref = text.removeprefix("git+").rpartition("@")
        if not at or not ref or "://" not in url:
            message = f"{what}: {text!r} has no commit."
            yield error(
                "image-source",
                "",
                message,
                "Write git+https://HOST/OWNER/REPOSITORY@REF; REF is a commit, tag or branch.",
            )
        elif _USERINFO.search(url) or looks_secret(text):
            message = f"{what} contains a login, which would be in the shell's history."
            yield error("image-source", "", message, "Remove it; git's credential helper supplies the login.")
        elif not _GIT.fullmatch(text):
            message = f"{what}: {text!r} is not a valid URL; allowed: letters, digits and . _ ~ : / @ % + -"
            yield error("image-source", "", message, "Write git+https://HOST/OWNER/REPOSITORY@COMMIT.")


def _given_arguments(options: BuildOptions) -> Iterator[Problem]:
    for name, value in options.args.items():
        if name in OWN:
            yield error("image-argument", "", f"--arg {name} is set by xsft.", "Use the corresponding option.")
        elif names_secret(name) or looks_secret(value):
            message = f"--arg {name} looks like a secret; build arguments stay in the image's history."
            yield error("image-argument", "", message, "Put a package index's login into --pip-config FILE.")


def _requirements(options: BuildOptions) -> Iterator[Problem]:
    """Check the requirements and packages for pip and apt-get; options of these commands are refused."""
    given = {"--vllm": options.vllm, **{f"--arg {n}": v for n, v in options.args.items() if n.endswith("_REQUIREMENT")}}
    for what, text in given.items():
        if text and not _REQUIREMENT.fullmatch(text):
            message = f"{what}: {text!r} is not a pip requirement: a name, [extras], and versions or @ and a URL."
            yield error("image-argument", "", message, "Write it as vllm==0.11.0, or vllm @ https://HOST/FILE.whl.")
        elif text and (_USERINFO.search(text) or looks_secret(text)):
            message = f"{what} contains a login, which would stay in the image's history."
            yield error("image-argument", "", message, "Put a package index's login into --pip-config FILE.")
    wrong = [word for word in options.args.get("APT_PACKAGES", "").split(" ") if word and not _PACKAGE.fullmatch(word)]
    if wrong:
        message = (
            f"--arg APT_PACKAGES: {wrong[0]!r} is not a Debian package name; allowed: lower-case letters, digits "
            "and + - . (=VERSION)"
        )
        yield error("image-argument", "", message, "Separate package names with spaces: APT_PACKAGES='git curl'.")


def _unknown_argument(name: str, known: Mapping[str, str | None]) -> Problem:
    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    message = f"No Dockerfile of the image has ARG {name}.{hint} Known arguments: {', '.join(sorted(known)) or 'none'}."
    return error("image-argument", "", message, f"Remove it, or add ARG {name} to the Dockerfile.")
