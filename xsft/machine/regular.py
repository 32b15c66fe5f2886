"""Reads a file that another program or person may have created: never waits for a pipe, never reads without a limit."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 16 * 1024 * 1024
"""Limit for a record or a kubeconfig; a kubeconfig with hundreds of clusters fits."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open the file for reading. Raises OSError, also for a pipe, socket, device or folder."""
    _refuse_special(path, os.stat(path).st_mode)  # before opening: opening a device can act on it
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _refuse_special(path, os.fstat(fd).st_mode)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_bytes(path: str | Path, *, limit: int = MAX_BYTES) -> bytes:
    """Return the whole content. Raises as `open_regular`, and OSError if it has more than `limit` bytes."""
    with open_regular(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
    return content


def read_text(path: str | Path, *, limit: int = MAX_BYTES, errors: str = "strict") -> str:
    """Return the whole content as UTF-8 text. Raises as `read_bytes`, and UnicodeDecodeError if it is not UTF-8 and
    `errors` is strict.
    """
    return read_bytes(path, limit=limit).decode("utf-8", errors)


def _refuse_special(path: str | Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device, not a file", str(path))
