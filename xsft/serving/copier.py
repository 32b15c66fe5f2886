"""The text of the program that copies weights in a pod. Read once, from this package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("copy_weights.py")


@cache
def copy_program() -> str:
    return FILE.read_text(encoding="utf-8")
