"""Format keys and values of a workload for a message: on one line, without control characters or secrets."""

from __future__ import annotations

from collections.abc import Iterable

from xsft.base.secrets import HIDDEN, looks_secret

MAX_SHOWN = 60
"""Maximum characters of a value that a message quotes."""


def key_path(parts: Iterable[str | int]) -> str:
    """Return the path with dots, list indexes included: `data.columns.0`."""
    return ".".join(key_part(part) for part in parts)


def path_below(path: str, part: str | int) -> str:
    return f"{path}.{key_part(part)}" if path else key_part(part)


def key_part(part: str | int) -> str:
    text = str(part)
    return HIDDEN if looks_secret(text) else printable(text)


def shown_text(text: str) -> str:
    """Return at most `MAX_SHOWN` printable characters of a text that is known not to be a secret."""
    line = printable(text)
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


def printable(text: str) -> str:
    """Return the text with control characters escaped, so that a workload cannot act on the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
