"""Remove secrets from records. A second safeguard: plans with a literal secret are already refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from xsft.spec.secrets import HIDDEN, is_harmless, names_secret, names_secret_variable, redact

_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_][\w.\-]*)=(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\"&,;]+)")
_SIGNED = re.compile(r"(?i)(?:^|[-_])(?:signature|sig)$")
_REFERENCE = re.compile(r"(?i)(?:_path|_file|pull[-_]secret|_name)$")
"""Names of references to secrets, not of secrets: HF_TOKEN_PATH, --docker-image-pull-secret."""


def scrub(value: Any, *, key: str = "") -> Any:
    """Return a JSON value without secrets, found by format (in keys too) or by the name they are assigned to.

    Environment variables are judged by name too; `key` is the name of this value.
    """
    match value:
        case str():
            return scrub_text(value)
        case Mapping():
            return {redact(str(name)): _scrub_under(str(name), inner, inside=key) for name, inner in value.items()}
        case list() | tuple():
            return [scrub(item, key=key) for item in value]
        case _:
            return value


def scrub_text(text: str) -> str:
    return redact(_ASSIGNED.sub(_scrub_assignment, text))


def _scrub_under(name: str, value: Any, *, inside: str) -> Any:
    if inside == "env" and isinstance(value, str) and names_secret_variable(name) and not is_harmless(value):
        return HIDDEN
    return scrub(value, key=name)


def _scrub_assignment(match: re.Match[str]) -> str:
    name = match["name"]
    if (names_secret(name) or _SIGNED.search(name)) and not _REFERENCE.search(name):
        return f"{name}={HIDDEN}"
    inner = match["value"].partition("=")
    if inner[1]:  # --env=DB_PASSWORD=…
        return f"{name}={scrub_text(match['value'])}"
    return match[0]
