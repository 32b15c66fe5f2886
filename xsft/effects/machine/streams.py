"""Standard streams, where something must be done to the file descriptors themselves."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from xsft.spec.secrets import redact
from xsft.spec.terminal import safe_text


class Screened:
    """A text stream through which no secret and nothing that a terminal acts on is written, whoever writes: verbs,
    argparse, tracebacks.
    """

    def __init__(self, stream: TextIO, *, controls: bool = False) -> None:
        self.stream = stream
        self._controls = controls

    def write(self, text: str) -> int:
        shown = redact(text)
        self.stream.write(shown if self._controls else safe_text(shown))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def prepare_streams() -> None:
    """Make the streams usable: a closed one is empty or goes nowhere, text that the locale cannot write is escaped, and
    neither secrets nor control characters are written.

    Standard input first: its descriptor is the lowest, so that no socket or file of ours becomes it.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for the whole process
    sys.stdout = _screened(sys.stdout)
    sys.stderr = _screened(sys.stderr)


def _screened(stream: Any) -> Any:
    return stream if isinstance(stream, Screened) else Screened(_prepared(stream))


def _prepared(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    with contextlib.suppress(AttributeError, ValueError):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    return stream


def with_controls(stream: Any) -> Any:
    """The same stream for what draws on a terminal itself, or was asked for raw: control characters pass."""
    return Screened(stream.stream, controls=True) if isinstance(stream, Screened) else stream


def silence_stdout() -> None:
    """Point stdout at /dev/null: after a broken pipe Python would complain once more at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
