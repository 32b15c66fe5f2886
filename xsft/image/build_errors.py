"""Find the cause of a failed build in its output. Pure."""

from __future__ import annotations

import re

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, UsageError, XsftError
from xsft.image.docker_errors import DockerRequest, explain_docker_error, shorten_message
from xsft.image.model import BuildStep
from xsft.image.progress import BuildOutput
from xsft.image.registry_names import parse_image_name

_NO_PYTHON = r"(?:^|[\s:/\"])python3?\"?: (?:command not|not|executable file not) found|no module named pip"
_NETWORK = (
    r"temporary failure (?:in name resolution|resolving)|name or service not known|network is unreachable|"
    r"connection (?:refused|timed out|reset)|newconnectionerror|could not resolve|read timed out|max retries exceeded|"
    r"dns error|operation timed out|proxyerror|no route to host|http status server error|\b5\d\d server error"
)
_LOGIN = (
    r"\b401 error, credentials not correct|lack of valid authentication credentials|returned a 403 forbidden|"
    r"_prompt_for_password|\b401 unauthorized|\b403 forbidden|\b40[13] client error"
)
"""Messages of pip (which prompts for a password when pip.conf has none), uv and urllib."""
_LISTED = r"\(from versions: (?!none)|there is no version of"
"""The index answered and has other versions, so earlier network errors in the output no longer matter."""
_NOT_LISTED = (
    r"no matching distribution found|could not find a version that satisfies|not found in the package registry"
)
"""Checked after network and login errors: pip prints this for any index that did not answer."""


class BuildErrorRule(Struct, frozen=True, kw_only=True):
    """A pattern in the output of a build, and the error it means."""

    pattern: str
    id: str
    fix: str
    error_type: type[XsftError] = EnvironmentMissing


KNOWN: tuple[BuildErrorRule, ...] = (
    BuildErrorRule(
        pattern=_NO_PYTHON,
        id="base-without-python",
        fix="Use a base image with CPython 3.12 and pip as `python3`, e.g. python:3.12-slim (image base, BASE_IMAGE).",
        error_type=UsageError,
    ),
    BuildErrorRule(
        pattern=r"do not match the hashes|hash(?:es)? (?:mis)?match|hashes are required",
        id="build-hash-mismatch",
        fix="The index serves files whose hashes differ from the lock: ask its administrator, or lock again and "
        "read the diff.",
    ),
    BuildErrorRule(
        pattern=_LISTED,
        id="build-package-missing",
        fix="The index has other versions: check that it has this one for the base image's Python, or lock again.",
    ),
    BuildErrorRule(
        pattern=r"no space left on device|errno 28\b",
        id="disk-full",
        fix="`docker system df` shows the usage; `docker builder prune` frees the build cache. xsft deletes nothing.",
    ),
    BuildErrorRule(
        pattern=r"certificate verify failed|self[- ]signed certificate|sslerror|invalid peer certificate",
        id="build-certificate",
        fix="Your network's certificate authority is not in the base image: use a base image that has it.",
    ),
    BuildErrorRule(
        pattern=_LOGIN,
        id="build-index-login",
        fix="The package index rejected the login: correct the user and password in the --pip-config file.",
    ),
    BuildErrorRule(
        pattern=_NETWORK,
        id="build-no-network",
        fix="Can the engine's machine reach the package index, and is the index up? Behind a mirror, give its address "
        "in a pip.conf (--pip-config).",
    ),
    BuildErrorRule(
        pattern=r"is not a trusted or secure host",
        id="build-index-untrusted",
        fix="pip refuses an index over http: use its https address in the --pip-config file, or add `trusted-host "
        "= HOST` there.",
    ),
    BuildErrorRule(
        pattern=_NOT_LISTED,
        id="build-package-missing",
        fix="The index lists no version: check the address and login in the --pip-config file, and that the index "
        "has this package.",
    ),
    BuildErrorRule(
        pattern=r"exec format error",
        id="build-platform",
        fix="The base image is for another processor; TPU hosts are linux/amd64.",
    ),
    BuildErrorRule(
        pattern=r"\bkilled\b|exit code: 137",
        id="build-out-of-memory",
        fix="Give the engine more memory (Docker Desktop: Resources).",
    ),
    BuildErrorRule(
        pattern=r"dockerfile parse error|unknown instruction|unknown flag",
        id="dockerfile-invalid",
        fix="Correct the Dockerfile.",
        error_type=UsageError,
    ),
    BuildErrorRule(
        pattern=r"failed to compute cache key|failed to calculate checksum",
        id="context-incomplete",
        fix="The Dockerfile copies a file that is not in its context.",
        error_type=UsageError,
    ),
)
"""The rules; the first match counts, so certain causes precede possible consequences. Examples of each:
tests/image/build_words.txt. source: pip@23.2, uv@0.13, moby@20.10, buildkit@0.8.
"""


def build_failed(reading: BuildOutput, step: BuildStep) -> XsftError:
    """Return the error for a failed build: the step, its cause if known, and the last lines of the output."""
    tail = "\n".join(reading.tail)
    where = f" at {_short_name(reading.failed)}" if reading.failed else ""
    message = (
        f"The {step.name} image could not be built{where}: {shorten_message(reading.error) or 'docker build ended'}"
    )
    base = re.search(r"load metadata for (\S+)", reading.failed)
    if base:
        return explain_docker_error(
            reading.error, DockerRequest(what=f"pull the base image {base[1]}", host=parse_image_name(base[1]).host)
        )
    for known in KNOWN:
        if re.search(known.pattern, tail, re.IGNORECASE):
            return known.error_type(f"{message}\n{tail}", fix=known.fix, id=known.id)
    if not reading.failed:
        return explain_docker_error(reading.error or tail, DockerRequest(what=f"build the {step.name} image"))
    fix = "The last lines above are the step's own; correct what they name and build again: what succeeded is kept."
    return EnvironmentMissing(f"{message}\n{tail}", fix=fix, id="build-failed")


def _short_name(name: str) -> str:
    return name if len(name) <= 120 else f"{name[:117]}…"
