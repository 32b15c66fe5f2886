"""How keys and values of a workload are written in a message: on one line, without control characters or secrets."""

from __future__ import annotations

from collections.abc import Iterable

from xsft.spec.secrets import HIDDEN, looks_secret

MAX_SHOWN = 60
"""Characters of a value that a message may quote."""


def key_path(parts: Iterable[str | int]) -> str:
    """Dotted, list indexes included: `data.columns.0`."""
    return ".".join(key_part(part) for part in parts)


def below(path: str, part: str | int) -> str:
    return f"{path}.{key_part(part)}" if path else key_part(part)


def key_part(part: str | int) -> str:
    text = str(part)
    return HIDDEN if looks_secret(text) else printable(text)


def shown(text: str) -> str:
    """At most `MAX_SHOWN` printable characters of a text that is known not to be a secret."""
    line = printable(text)
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


def printable(text: str) -> str:
    """Control characters become escapes, so that a workload cannot drive the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
