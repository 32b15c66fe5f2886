"""Standard streams, where the file descriptors themselves must be changed."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from xsft.base.secrets import HIDDEN, KEY_LINE, KEY_MARK, redact
from xsft.base.terminal_text import safe_text

MAX_KEY_LINES = 256
"""A key of 16,384 bits has 200 lines."""


class ScreenedStream:
    """A text stream that removes secrets and terminal control characters from all output: of verbs, argparse and
    tracebacks.
    """

    def __init__(self, stream: TextIO, *, controls: bool = False) -> None:
        self.stream = stream
        self._controls = controls
        self._key_lines = 0
        """Number of further texts that may hold a part of a private key."""

    def write(self, text: str) -> int:
        shown = self._without_key(text, redact(text))
        self.stream.write(shown if self._controls else safe_text(shown))
        return len(text)

    def _without_key(self, text: str, shown: str) -> str:
        """Return `shown` without the lines of a key that began in an earlier text; lines of other processes may lie
        between them.
        """
        if self._key_lines:
            self._key_lines -= 1
            shown = KEY_LINE.sub(HIDDEN, shown)
        if marks := KEY_MARK.findall(text):
            self._key_lines = MAX_KEY_LINES if marks[-1] == "BEGIN" else 0
        return shown

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def prepare_streams() -> None:
    """Prepare the standard streams: a closed one becomes empty or discards its output, text that the locale cannot
    encode is escaped, and neither secrets nor control characters are written.

    Standard input comes first: its descriptor is the lowest, so that no other socket or file gets it.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for the whole process
    sys.stdout = _screen_stream(sys.stdout)
    sys.stderr = _screen_stream(sys.stderr)


def shows_colours(stream: TextIO) -> bool:
    """Return whether the stream is a terminal on which the user wants colours. source: no-color.org"""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def has_terminal() -> bool:
    """Return whether a terminal is there to ask a question on stderr and read the answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


@contextlib.contextmanager
def print_if_slow(line: str, *, after_s: float) -> Iterator[None]:
    """Print the line on stderr if the work below takes longer; on a terminal a spinner shows the wait."""
    timer = threading.Timer(after_s, lambda: sys.stderr.write(f"{line}\n"))
    timer.daemon = True
    if not sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _screen_stream(stream: Any) -> Any:
    return stream if isinstance(stream, ScreenedStream) else ScreenedStream(_prepare_stream(stream))


def _prepare_stream(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    with contextlib.suppress(AttributeError, ValueError):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    return stream


def with_controls(stream: Any) -> Any:
    """Return the same stream without removing control characters, for code that draws on a terminal or output that was
    requested raw.
    """
    return ScreenedStream(stream.stream, controls=True) if isinstance(stream, ScreenedStream) else stream


def silence_stdout() -> None:
    """Point stdout at /dev/null: after a broken pipe Python would print another error at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
