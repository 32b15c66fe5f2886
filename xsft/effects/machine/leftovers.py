"""Files that a writer left beside its target because it was killed (`files.write_atomic`)."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

OLD_S = 3600.0
"""No writer takes so long: a younger one may be somebody's who is at it."""
_BESIDE = re.compile(r"\..+\.[0-9a-f]{12}\.tmp", re.DOTALL)


def sweep(folder: Path, *, older_s: float = OLD_S) -> None:
    """Remove this user's, where they are old. Never raises: they harm nobody."""
    before = time.time() - older_s
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # its writer has renamed it meanwhile
                _remove(entry, before=before)


def _remove(entry: os.DirEntry[str], *, before: float) -> None:
    if not _BESIDE.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
        return
    found = entry.stat(follow_symlinks=False)
    if found.st_uid == os.getuid() and found.st_mtime < before:
        Path(entry.path).unlink(missing_ok=True)
