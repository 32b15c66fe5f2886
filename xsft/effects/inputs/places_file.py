"""Finds places.yaml. Separate from the module that reads it, so that a user without the file does not load the
validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FILE = "places.yaml"


def places_file(start: Path, *, env: Mapping[str, str], home: Path) -> Path | None:
    project = next((p for p in (start, *start.parents) if (p / "pyproject.toml").is_file()), None)
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    folders = (project, (config if config.is_absolute() else home / ".config") / "xsft")
    return next((folder / FILE for folder in folders if folder and (folder / FILE).exists()), None)
