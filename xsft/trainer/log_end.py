"""Find what a process printed last: the exception that ended Python, its direct causes, and the lines after it. Pure.

A log also holds warnings, retries and tracebacks that the program survived; only its end shows why the process ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from xsft.trainer.lines import EvaluationLoss, PhaseStarted, Step, StepLoss, trainer_event

PREFIX = re.compile(
    r"^(?:[IWEF]\d{4} [\d:.]+\s+\d+ [\w./-]+:\d+\] |(?:INFO|WARNING|ERROR|CRITICAL):[\w.]+:)"
    r"(?:\[process=\d+\](?:\[[^\]]*\])? )?"
)
"""Prefix of log lines of absl and of logging."""

_HEADER = "Traceback (most recent call last):"
_CAUSE = "The above exception was the direct cause of the following exception:"
"""source: cpython@v3.12 Lib/traceback.py. An exception that was only being handled is not the cause of the next one."""
_EXCEPTION = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Exit|Interrupt|Iteration|Timeout)\b(?:: |$)"
    r"|[a-z_]\w*(?:\.\w+)*\.[A-Z]\w*(?:: |$))"  # google.api_core.exceptions.Forbidden: 403 …
)
_FATAL = re.compile(r"^F\d{4} |^Fatal Python error: |^terminate called ")
"""The line with which abort() ends a process. source: absl log/log_severity.h; cpython Python/pylifecycle.c; libstdc++
vterminate.cc.
"""
_AT_EXIT = re.compile(r"^Exception ignored (?:in|while)|^Error in atexit")
"""Begins a traceback of the interpreter's clean-up. source: cpython@v3.12 Python/errors.c, Modules/atexitmodule.c."""
_IN_THREAD = "Exception in thread "
_NOT_WORDS = re.compile(r"^(?:XPK (?:Start|End): |EXIT_CODE=|    @ +0x|\*\*\* Check failure|\s*$)")
"""Lines of xpk's wrapper and of native stack traces. source: xpk@1.16.0 core/workload.py; absl debugging/symbolize."""


class LogEnd(Struct, frozen=True, kw_only=True):
    exceptions: tuple[str, ...] = ()
    """The exception that ended Python, then its direct causes; each with all lines of its message."""
    frames: str = ""
    """Its traceback's frames."""
    before: str = ""
    """The line before its traceback."""
    lines: tuple[str, ...] = ()
    """The lines after it; without an exception, the last line, or the fatal one and what follows."""


def log_end(lines: Sequence[str]) -> LogEnd:
    """Return the end of a log, whose lines have no colours."""
    lines = tuple(_without_clean_up(lines))
    raised = _last_exception(lines)
    if raised is None:
        return LogEnd(lines=_last_words(lines))
    message, *following = records(lines[raised:])
    parts = tuple(_causes(lines, _header_above(lines, raised)))
    top = parts[-1][0] if parts else _header_above(lines, raised)
    return LogEnd(
        exceptions=(message, *(text for _, text in parts)),
        frames="\n".join(line for line in lines[top:raised] if line.startswith('  File "')),
        before=lines[top - 1] if top else "",
        lines=tuple(following),
    )


def _last_exception(lines: Sequence[str]) -> int | None:
    """Return the index of the line that names the last exception; None if the trainer went on after it, or without
    one. A thread's counts only if no other is there."""
    last_lines = {False: -1, True: -1}
    for number, line in enumerate(lines):
        if _EXCEPTION.match(line) and _ends_traceback(lines, number):
            header = _header_above(lines, number)
            last_lines[header > 0 and lines[header - 1].startswith(_IN_THREAD)] = number
    last = last_lines[False] if last_lines[False] >= 0 else last_lines[True]
    went_on = any(
        isinstance(trainer_event(line), Step | StepLoss | EvaluationLoss | PhaseStarted) for line in lines[last:]
    )
    return None if last < 0 or went_on else last


def _ends_traceback(lines: Sequence[str], number: int) -> bool:
    """Return whether frames stand above the line, or did before the log was cut."""
    above, below = lines[:number], lines[number + 1 :]
    return not above or above[-1].startswith((" ", _HEADER)) or all(map(_NOT_WORDS.match, below))


def _header_above(lines: Sequence[str], number: int) -> int:
    """Return the index of the first line of the traceback that ends at `number`."""
    top = number
    while top > 0 and lines[top - 1].startswith(" "):
        top -= 1
    return top - 1 if top > 0 and lines[top - 1].startswith(_HEADER) else top


def _causes(lines: Sequence[str], top: int) -> Iterator[tuple[int, str]]:
    """Yield first line and message of each direct cause of the exception whose traceback begins at `top`. An exception
    without frames has no header."""
    while top >= 4 and lines[top - 2] == _CAUSE:
        end = top - 3
        named = next((number for number in range(end - 1, -1, -1) if _EXCEPTION.match(lines[number])), None)
        if named is None:
            return
        top = _header_above(lines, named)
        yield top, "\n".join(lines[named:end])


def _last_words(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the fatal line and those after it; without one, the last line."""
    fatal = [number for number, line in enumerate(lines) if _FATAL.match(line)]
    if fatal:
        return tuple(records(lines[fatal[-1] :]))
    return tuple([line for line in lines if not _NOT_WORDS.match(line)][-1:])


def records(lines: Sequence[str]) -> Iterator[str]:
    """Yield each line with a prefix, joined with the lines without one that follow it."""
    record: list[str] = []
    for line in lines:
        begins = PREFIX.match(line) or line.startswith(_IN_THREAD)
        if begins and record:
            yield "\n".join(record)
            record = []
        if not _NOT_WORDS.match(line):
            record.append(line)
    yield "\n".join(record)


def _without_clean_up(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines without exceptions that the interpreter ignored at its exit."""
    inside = False
    for line in lines:
        if _AT_EXIT.match(line):
            inside = True
        elif inside:
            inside = line.startswith((" ", "Traceback"))  # the line that names the exception is the last one
        else:
            yield line
