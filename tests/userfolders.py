"""The user's own folders, into which no test writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from xsft.machine.paths import places_folders, state_dir


def user_folders(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of the index of runs, by an environment and by default, and of places.yaml."""
    home = Path.home()
    return (state_dir(env, home=home), state_dir({}, home=home), places_folders(home, env=env, home=home)[-1])


def files_naming(folder: Path, users: Iterable[Path]) -> list[str]:
    """Return the files of the user that name a folder or what is in it, as the entry of a run names its output."""
    files = {path for user in users for path in user.rglob("*") if path.is_file()}
    return sorted(str(path) for path in files if str(folder).encode() in path.read_bytes())
