"""Read a data file of this package, cached. The only file access of the catalog."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
"""importlib.resources is not used: importing it costs as much CPU as reading every file here."""


@cache
def catalog_text(name: str) -> str:
    """Return the content of `xsft/catalog/<name>`."""
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def toml(name: str) -> dict[str, Any]:
    """Return `xsft/catalog/<name>` parsed. Callers must not change it."""
    return tomllib.loads(catalog_text(name))
