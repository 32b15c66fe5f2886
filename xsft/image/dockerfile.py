"""Read the build arguments of a Dockerfile. Pure."""

from __future__ import annotations

import re

_ARGUMENT = re.compile(r"^\s*ARG\s+(.*)$", re.IGNORECASE)
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:=(\"[^\"]*\"|'[^']*'|\S*))?")


def arguments(text: str) -> dict[str, str | None]:
    """Return each build argument and its default (None without one). The first default counts: the one before FROM."""
    found: dict[str, str | None] = {}
    for line in text.splitlines():
        declared = _ARGUMENT.match(line)
        for name, default in _NAME.findall(declared[1].partition(" #")[0]) if declared else ():
            found[name] = found.get(name) or default.strip("\"'") or None
    return found
