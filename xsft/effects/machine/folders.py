"""Folders that are this user's alone."""

from __future__ import annotations

from pathlib import Path

PRIVATE_FILE = 0o600


def private_folder(folder: Path) -> Path:
    """Make the folder, and what is missing above it, for this user alone, whatever the umask; what is there stays.

    `mkdir(parents=True)` gives its mode to the last folder only. source: XDG base directory specification, "0700".
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    if not missing:
        folder.mkdir(exist_ok=True)  # the error of a file in its place
    return folder
