"""Clean lines of a program's output of what a terminal acts on: colours, cursor moves, titles. Pure."""

from __future__ import annotations

import re

from xsft.base.secrets import redact
from xsft.base.terminal_text import without_sequences

_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""Control characters except the tab."""


def plain_line(line: str) -> str:
    """Return the line without colours, control characters and overwritten parts of progress bars; everything else is
    unchanged."""
    if line.isprintable():
        return line
    return _CONTROLS.sub("", without_sequences(line.rstrip("\r").rpartition("\r")[2]))


def bare_text(text: str) -> str:
    """Return text of the cluster or the trainer without colours, control characters and secrets."""
    return redact(plain_line(text))
