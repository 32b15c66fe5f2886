"""Read a data file of this package, once. The catalog's only file access: its own package data."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
"""Not importlib.resources: importing that costs as much CPU as reading every file here."""


@cache
def text(name: str) -> str:
    """Content of `xsft/catalog/<name>`."""
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def toml(name: str) -> dict[str, Any]:
    """`xsft/catalog/<name>`, parsed. Callers must not change it."""
    return tomllib.loads(text(name))
