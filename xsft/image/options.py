"""The options of an image: what a call gives, what the last push used, and what is refused at once. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from xsft.base.forms import IMAGE_NAME
from xsft.base.problems import Problem, error
from xsft.base.secrets import looks_secret, names_secret
from xsft.catalog import releases
from xsft.image.reference import legacy_warning, parse_reference, parse_repository

BUILDABLE = frozenset({releases.DEFAULT})
"""MaxText releases whose hash-locked requirements are in images/post_training/requirements.txt, tested."""

PYPI = "pypi"
"""Source of a package that is installed as the lock says."""
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


class BuildOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options that decide an image's content, as a call gives them or the lock keeps them. None or empty: not
    given, so the default.
    """

    maxtext: str | None = None
    """MaxText release. Not repeated by the next call: a newer xsft builds another one."""
    maxtext_source: str | None = None
    """`pypi`, `git+URL@REF`, or a folder: relative inside the project, else absolute."""
    tunix_source: str | None = None
    base: str | None = None
    """Base image; None for the Dockerfile's default."""
    vllm: str | None = None
    """pip requirement; None for no vLLM."""
    code: tuple[str, ...] = ()
    """Folders whose content is put on PYTHONPATH."""
    args: Mapping[str, str] = field(default_factory=dict)
    """Additional build arguments."""

    @property
    def release(self) -> str:
        return self.maxtext or releases.DEFAULT

    @property
    def sources(self) -> dict[str, str]:
        """Source by package, of those that the lock's version does not serve."""
        sources = {"maxtext": self.maxtext_source, "tunix": self.tunix_source}
        return {package: source for package, source in sources.items() if source and source != PYPI}

    @property
    def is_shareable(self) -> bool:
        """Return whether the lock can keep them: no folder is outside the project."""
        return not any(folder.startswith("/") for folder in (*self.code, *self.sources.values()))


def given_fields(options: BuildOptions) -> dict[str, Any]:
    return {name: option for name, option in asdict(options).items() if option}


def combine_options(call: BuildOptions, last: BuildOptions) -> BuildOptions:
    """Return the options of the last push, changed by those of the call."""
    return replace(last, **{"maxtext": None, **given_fields(call)})


def option_words(options: BuildOptions) -> str:
    """Return the options as on a command line, without the release; empty without one."""
    pairs = [
        ("maxtext-source", options.maxtext_source),
        ("tunix-source", options.tunix_source),
        ("base", options.base),
        ("vllm", options.vllm),
        *(("code", folder) for folder in options.code),
        *(("arg", f"{name}={text}") for name, text in options.args.items()),
    ]
    return shlex.join(f"--{name}={text}" for name, text in pairs if text and text != PYPI)


def option_problems(options: BuildOptions, *, image: str, registry: str | None) -> Iterator[Problem]:
    """Yield the problems `image-name`, `image-maxtext`, `image-reference`, `image-legacy-registry`, `image-source` and
    `image-argument`.
    """
    if not re.fullmatch(IMAGE_NAME, image):
        message = f"{image!r} is not a valid image name: it must be a lower-case folder name under images/."
        yield error("image-name", "", message, "Use letters, digits, dashes and underscores: post_training.")
    yield from _maxtext(options)
    for text, parse, what in (
        (registry, parse_repository, "--registry"),
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
    yield from _sources(options)
    yield from _given_arguments(options)
    yield from _requirements(options)


def argument_problems(options: BuildOptions, declared: Mapping[str, str | None]) -> Iterator[Problem]:
    """Yield `image-argument` for each argument that the Dockerfile, whose arguments are `declared`, does not take."""
    arguments = {**declared, RUN_AS: None}
    for name, text in {"BASE_IMAGE": options.base, "VLLM_REQUIREMENT": options.vllm, **options.args}.items():
        if text is not None and name not in arguments:
            close = get_close_matches(name, arguments, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            message = f"The Dockerfile has no ARG {name}.{hint} Known arguments: {', '.join(sorted(arguments))}."
            yield error("image-argument", "", message, f"Remove it, or add ARG {name} to the Dockerfile.")


def _maxtext(options: BuildOptions) -> Iterator[Problem]:
    if options.release in BUILDABLE:
        return
    try:
        release = releases.release(options.release)
    except ValueError as unknown:
        yield error("image-maxtext", "", str(unknown), f"Use --maxtext {releases.DEFAULT}.")
        return
    message = (
        f"MaxText {release.version} ({release.layout} layout) cannot be built here: the locked requirements are for "
        f"{', '.join(sorted(BUILDABLE))}."
    )
    fix = f"Set an image that has it in the workload: image: {{ref: …@sha256:…, maxtext: {release.version!r}}}."
    yield error("image-maxtext", "", message, fix)


def _sources(options: BuildOptions) -> Iterator[Problem]:
    for text, what in ((options.maxtext_source, "--maxtext-source"), (options.tunix_source, "--tunix-source")):
        if text is None or not text.startswith("git+"):
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
