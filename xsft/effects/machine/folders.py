"""Folders that only this user may read."""

from __future__ import annotations

from pathlib import Path

PRIVATE_FILE = 0o600


def private_folder(folder: Path) -> Path:
    """Create the folder and its missing parents for this user alone, whatever the umask; existing folders are not
    changed. `mkdir(parents=True)` applies its mode to the last folder only. source: XDG base directory specification,
    "0700".
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    if not missing:
        folder.mkdir(exist_ok=True)  # the error of a file in its place
    return folder
