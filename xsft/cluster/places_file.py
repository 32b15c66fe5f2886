"""Finds places.yaml. Separate from the module that reads it, so that a user without the file does not load the
validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from os.path import lexists
from pathlib import Path

FILE = "places.yaml"


def places_file(start: Path, *, env: Mapping[str, str], home: Path) -> Path | None:
    """Return the first places.yaml in the order of `places_folders`, or None. One that cannot be read counts, such as a
    link that leads nowhere: its reader reports it.
    """
    found = (folder / FILE for folder in places_folders(start, env=env, home=home))
    return next((file for file in found if lexists(file)), None)


def places_folders(start: Path, *, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return the folders in which places.yaml is searched: `start`, the workload's folder; its parents, nearest first;
    then the user's configuration, `$XDG_CONFIG_HOME/xsft`.
    """
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    return (start, *start.parents, (config if config.is_absolute() else home / ".config") / "xsft")
