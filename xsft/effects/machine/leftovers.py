"""Removes files that a killed writer left beside its target (`files.write_atomic`)."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

OLD_S = 3600.0
"""No writer takes this long; a younger file may still be in use."""
_BESIDE = re.compile(r"\..+\.[0-9a-f]{12}\.tmp", re.DOTALL)


def sweep(folder: Path, *, older_s: float = OLD_S) -> None:
    """Remove this user's old leftover files. Never raises: they are harmless."""
    before = time.time() - older_s
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # its writer may have renamed it
                _remove(entry, before=before)


def _remove(entry: os.DirEntry[str], *, before: float) -> None:
    if not _BESIDE.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
        return
    found = entry.stat(follow_symlinks=False)
    if found.st_uid == os.getuid() and found.st_mtime < before:
        Path(entry.path).unlink(missing_ok=True)
