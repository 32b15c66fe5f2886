"""Lines of a program's output without what a terminal acts on: colours, cursor moves, titles. Pure."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC, DCS, …: titles, links; to its end, or the line's
    r"|\x1b[ -/]*[0-~]"
)
"""source: ECMA-48 §5.4, §5.6; xterm ends an OSC with BEL too."""
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""All but the tab."""


def plain(line: str) -> str:
    """Colours and control characters taken out, and what a progress bar wrote over; everything else as it was."""
    if line.isprintable():
        return line
    return _CONTROLS.sub("", _ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2]))
