"""Remove the control sequences of terminals from foreign text: values, a server's answers, a trainer's log. Pure."""

from __future__ import annotations

import re
import textwrap

_SEQUENCES = re.compile(
    r"(?:\x1b|\\(?:u001b|x1b|033|e))\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor; as JSON and shells write them too
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC, DCS, …: titles, links; to its end, or the line's
    r"|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)
"""Escape sequences, and control characters but the tab and line ends. source: ECMA-48 §5.4, §5.6; xterm ends an OSC
with BEL too.
"""
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
"""source: ECMA-48 §8.3.117, SGR."""
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0 but the tab and the newline, DEL, C1, and what changes the direction of writing (Unicode UAX #9 §2)."""


def safe_text(text: str) -> str:
    """Return the text in a form that is safe for a terminal: without colours, each state of a progress bar on its own
    line, any other control character as `\\u001b`, which JSON and YAML read back as that character.
    """
    if _ACTS.search(text) is None:
        return text
    return _ACTS.sub(_escape_character, _COLOUR.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def without_sequences(text: str) -> str:
    """Return the text without what a terminal acts on or does not show."""
    return _SEQUENCES.sub("", text)


def _escape_character(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def wrap_line(line: str, *, width: int | None, indent: int = 4) -> list[str]:
    """Return the line wrapped for reading, its continuations indented; commands in it stay whole. None: not a
    terminal, which gets whole lines."""
    if width is None or len(line) <= width:
        return [line]
    return textwrap.wrap(
        line.strip(),
        width=max(width, 40),
        initial_indent=line[: len(line) - len(line.lstrip())],
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
