"""Read a data file of this package, once. The catalog's only file access: its own package data."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def text(name: str) -> str:
    """Content of `xsft/catalog/<name>`."""
    return files("xsft.catalog").joinpath(name).read_text(encoding="utf-8")


@cache
def toml(name: str) -> dict[str, Any]:
    """`xsft/catalog/<name>`, parsed. Callers must not change it."""
    return tomllib.loads(text(name))
