"""A terminal of a given size: what a person sees of a command's standard output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from typing import NamedTuple

STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Screen(NamedTuple):
    """What a command wrote on a terminal."""

    lines: list[str]
    """Without colours."""
    colours: int
    """Number of changes of the style."""
    status: int


def seen(*arguments: str, columns: int = 100, rows: int = 30, env: Mapping[str, str] | None = None) -> Screen:
    """Run `xsft` with a terminal as its standard output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", **(env or {})}
    argv = (sys.executable, "-m", "xsft", *arguments)
    with subprocess.Popen(argv, stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        written = bytearray()
        while part := _read(ours):
            written += part
    os.close(ours)
    text = written.decode().replace("\r\n", "\n")
    return Screen(STYLE.sub("", text).splitlines(), len(STYLE.findall(text)), process.returncode)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # Linux: all writers are gone
        return b""
