"""Numbers of things and bytes as text. Pure."""

from __future__ import annotations


def counted(count: int, word: str) -> str:
    """Return e.g. `1 file`, `1,200 files`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def size_text(size: float) -> str:
    """Return bytes as text of at most three digits: `63 kB`, `1.85 GB`; powers of 1000."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
