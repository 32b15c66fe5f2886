"""Reads that the login may not be allowed to make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xsft.checks.admission import Unseen
from xsft.errors import Unreachable

T = TypeVar("T")


def unless_forbidden(look: Callable[[], T]) -> T | Unseen:
    """Return the answer, or why it may not be read. Raises as `look` does for every other failure."""
    try:
        return look()
    except Unreachable as failed:
        if failed.problem_id != "forbidden":
            raise
        return Unseen(why=failed.message)
