"""Data that ships with xsft: a tiny tokenizer and chat rows for `target: local`. Pure: names become paths.

A workload says `xsft://tiny/chat.jsonl`; it means the same from any directory, a checkout or an installed wheel.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEME = "xsft://"

SHIPPED = ("tiny/chat.jsonl", "tiny/tokenizer")
"""What a workload may name: 480 rows with `messages`, `question`, `answer`; made by tests/tools/make_tiny_data.py."""

_HERE = Path(__file__).parent.parent / "packaged"


def located(path: str) -> str:
    """Return the absolute path of `xsft://…`. Another path is unchanged, and so is a name that does not exist:
    `checks.packaged` reports that."""
    name = path.removeprefix(SCHEME).rstrip("/")
    return str(_HERE / name) if path.startswith(SCHEME) and name in SHIPPED else path


def located_in(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with every `xsft://…` replaced by its path."""
    return {key: located(value) if isinstance(value, str) else value for key, value in keys.items()}
