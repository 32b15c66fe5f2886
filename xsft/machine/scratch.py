"""Temporary folders. A process killed with -9 cannot remove its own, so a later one does."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "xsft-scratch-"
OLD_S = 3600.0
"""A younger folder may not be locked yet, or may be used by a program that a killed process started."""


@contextmanager
def scratch_folder(purpose: str, *, parent: Path | None = None) -> Iterator[Path]:
    """Yield a private folder, in `parent` or the system's folder of temporary files. It is removed at the end, or by a
    later xsft if this process is killed."""
    inside = parent or Path(tempfile.gettempdir())
    sweep_scratch(inside)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{purpose}-", dir=inside, ignore_cleanup_errors=True) as name:
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(handle)


def sweep_scratch(folder: Path, *, older_s: float = OLD_S) -> None:
    """Remove this user's folders whose process has ended. Never raises: they are harmless."""
    before = time.time() - older_s
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.startswith(PREFIX) and _is_ours(entry, before=before):
                    _remove_unless_held(entry.path)


def _is_ours(entry: os.DirEntry[str], *, before: float) -> bool:
    found = entry.stat(follow_symlinks=False)
    return entry.is_dir(follow_symlinks=False) and found.st_uid == os.getuid() and found.st_mtime < before


def _remove_unless_held(path: str) -> None:
    """Remove the folder unless it is locked. The kernel releases a lock when its holder dies."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)
