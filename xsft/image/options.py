"""The options of an image: what a call gives, what the last push used, and what is refused at once. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from xsft.base.forms import IMAGE_NAME
from xsft.base.problems import Problem, error
from xsft.base.secrets import looks_secret, names_secret
from xsft.catalog import releases
from xsft.image.reference import legacy_warning, parse_reference, parse_repository

BUILDABLE = frozenset({releases.DEFAULT})
"""MaxText releases whose hash-locked requirements are in images/post_training/requirements.txt, tested."""

RUN_AS = "RUN_AS"
"""Argument for the user of the image, `uid:gid`, which xsft sets without the Dockerfile."""
OWN_ARGUMENTS = frozenset(
    {"BASE_IMAGE", "BASE_DIGEST", "LOCK_SHA256", "MAXTEXT_VERSION", "VLLM_REQUIREMENT"}
    | {"DEPS_IMAGE", "REVISION", "DIRTY", "MAXTEXT_SOURCE", "EVALUATE_SHA256"}
)
"""Arguments that xsft sets itself, or that only the code's Dockerfile of earlier versions had."""
_USER = re.compile(r"[a-z0-9_][a-z0-9_-]*(:[a-z0-9_][a-z0-9_-]*)?")
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


class BuildOptions(Struct, frozen=True, kw_only=True):
    """The options of an image that a user can set."""

    image: str
    """Name of its folder under images/."""
    registry: str | None = None
    """Registry to push to, without the image's name: `us-docker.pkg.dev/my-project/xsft`."""
    maxtext: str = releases.DEFAULT
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


REMEMBERED = ("maxtext_source", "tunix_source", "base", "vllm", "code", "args")
"""The options that decide an image's content: the lock keeps them, and the next call repeats them. Not the MaxText
release: a newer xsft builds another one.
"""


class GivenOptions(Struct, frozen=True, kw_only=True):
    """The options of REMEMBERED that a call gives; None for one that it does not give."""

    maxtext: str | None = None
    maxtext_source: str | None = None
    tunix_source: str | None = None
    base: str | None = None
    vllm: str | None = None
    code: tuple[str, ...] | None = None
    args: Mapping[str, str] | None = None


def combine_options(given: GivenOptions, last: BuildOptions) -> BuildOptions:
    """Return the options of the last push, changed by those that are given."""
    return replace(last, **{name: value for name, value in asdict(given).items() if value is not None})


def option_words(options: BuildOptions) -> str:
    """Return the remembered options that differ from the defaults, as on a command line; empty without one."""
    defaults = BuildOptions(image=options.image)
    words: list[str] = []
    for name in REMEMBERED:
        value = getattr(options, name)
        if value == getattr(defaults, name):
            continue
        if name == "args":
            words += [f"--arg={key}={text}" for key, text in options.args.items()]
        elif name == "code":
            words += [f"--code={folder}" for folder in options.code]
        else:
            words.append(f"--{name.replace('_', '-')}={value}")
    return shlex.join(words)


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


def argument_problems(options: BuildOptions, declared: Mapping[str, str | None]) -> tuple[Problem, ...]:
    """Return `image-argument` for each argument that the Dockerfile, whose arguments are `declared`, does not take."""
    given = {"BASE_IMAGE": options.base, "VLLM_REQUIREMENT": options.vllm, **options.args}
    arguments = {**declared, RUN_AS: None}
    missing = [name for name, value in given.items() if value is not None and name not in arguments]
    return tuple(_unknown_argument(name, arguments) for name in missing)


def _check_image_name(options: BuildOptions) -> Iterator[Problem]:
    if not re.fullmatch(IMAGE_NAME, options.image):
        message = f"{options.image!r} is not a valid image name: it must be a lower-case folder name under images/."
        yield error("image-name", "", message, "Use letters, digits, dashes and underscores: post_training.")


def _maxtext(options: BuildOptions) -> Iterator[Problem]:
    if options.maxtext in BUILDABLE:
        return
    try:
        release = releases.release(options.maxtext)
    except ValueError as unknown:
        yield error("image-maxtext", "", str(unknown), f"Use --maxtext {releases.DEFAULT}.")
        return
    message = (
        f"MaxText {release.version} ({release.layout} layout) cannot be built here: the locked requirements are for "
        f"{', '.join(sorted(BUILDABLE))}."
    )
    fix = f"Set an image that has it in the workload: image: {{ref: …@sha256:…, maxtext: {release.version!r}}}."
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
        url, sign, ref = text.removeprefix("git+").rpartition("@")
        if not sign or not ref or "://" not in url:
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
        if name in OWN_ARGUMENTS:
            yield error("image-argument", "", f"--arg {name} is set by xsft.", "Use the corresponding option.")
        elif name == RUN_AS and not _USER.fullmatch(value):
            yield error("image-argument", "", f"--arg {RUN_AS}={value} is not a user.", "Write it as RUN_AS=1000:1000.")
        elif names_secret(name) or looks_secret(value):
            message = f"--arg {name} looks like a secret; build arguments stay in the image's history."
            yield error("image-argument", "", message, "Put a package index's login into --pip-config FILE.")


def _requirements(options: BuildOptions) -> Iterator[Problem]:
    """Check the requirements and packages for pip and apt-get; options of these commands are refused."""
    requirements = {
        "--vllm": options.vllm,
        **{f"--arg {n}": v for n, v in options.args.items() if n.endswith("_REQUIREMENT")},
    }
    for what, text in requirements.items():
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


def _unknown_argument(name: str, arguments: Mapping[str, str | None]) -> Problem:
    close = get_close_matches(name, arguments, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    message = f"The Dockerfile has no ARG {name}.{hint} Known arguments: {', '.join(sorted(arguments))}."
    return error("image-argument", "", message, f"Remove it, or add ARG {name} to the Dockerfile.")
