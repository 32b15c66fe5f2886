"""Data that ships with xsft: a tiny tokenizer and chat rows for `target: local`. Pure: names become paths.

A workload says `xsft://tiny/chat.jsonl`; it means the same from any directory, a checkout or an installed wheel.
"""

from __future__ import annotations

from pathlib import Path

SCHEME = "xsft://"

SHIPPED = ("tiny/chat.jsonl", "tiny/tokenizer")
"""What a workload may name: 480 rows with `messages`, `question`, `answer`; made by tests/tools/make_tiny_data.py."""

_HERE = Path(__file__).parent


def packaged(path: str) -> str:
    """Absolute path of `xsft://…`; any other path unchanged. Raises ValueError naming what exists."""
    if not path.startswith(SCHEME):
        return path
    name = path.removeprefix(SCHEME).rstrip("/")
    if name not in SHIPPED:
        known = ", ".join(SCHEME + n for n in SHIPPED)
        raise ValueError(f"{path} is not a file of xsft. Known: {known}")
    return str(_HERE / name)


def located(path: str) -> str:
    """Like `packaged`, but a name that does not exist stays as it is: `checks.packaged` says so."""
    try:
        return packaged(path)
    except ValueError:
        return path
