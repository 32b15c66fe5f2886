"""Reads that the login may not be allowed to make."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from xsft.base.errors import Forbidden
from xsft.checks.admission import UnreadFact

T = TypeVar("T")
P = ParamSpec("P")


def unless_forbidden(look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | UnreadFact:
    """Return what `look` answers, or why it may not be read. Raises as `look` does for every other failure."""
    try:
        return look(*args, **kwargs)
    except Forbidden as failed:
        return UnreadFact(why=failed.clause)
