"""Remove secrets from records. A second safeguard: plans with a literal secret are already refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xsft.base.secrets import HIDDEN, is_secret_value, is_secret_variable, redact


def scrub(value: Any, *, key: str = "") -> Any:
    """Return a JSON value without secrets, found by format (in keys too) or by the name they are assigned to.

    Environment variables are judged by name too; `key` is the name of this value.
    """
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {redact(str(name)): _scrub_under(str(name), inner, inside=key) for name, inner in value.items()}
        case list() | tuple():
            return [scrub(item, key=key) for item in value]
        case _:
            return value


def _scrub_under(name: str, value: Any, *, inside: str) -> Any:
    if not isinstance(value, str):
        return scrub(value, key=name)
    if is_secret_value(name, value) or (inside == "env" and is_secret_variable(name, value)):
        return HIDDEN
    return redact(value)
