"""Read a data file of this package, cached: the only file access of the catalog. And what ships for workloads: a tiny
tokenizer and chat rows; `xsft://tiny/chat.jsonl` means the same from any directory, a checkout or an installed wheel.
"""

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


SCHEME = "xsft://"

SHIPPED = ("tiny/chat.jsonl", "tiny/tokenizer")
"""What a workload may name: 480 rows with `messages`, `question`, `answer`; made by tests/tools/make_tiny_data.py."""

_HERE = Path(__file__).parent.parent / "packaged"


def located(path: str) -> str:
    """Return the absolute path of `xsft://…`. Another path is unchanged, and so is a name that does not exist:
    `checks.packaged` reports that."""
    name = path.removeprefix(SCHEME).rstrip("/")
    return str(_HERE / name) if path.startswith(SCHEME) and name in SHIPPED else path
