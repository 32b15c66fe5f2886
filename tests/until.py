"""Waiting for what another thread or process does: looked for often, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK_EVERY_S = 0.02


def until_next_second(since: float) -> None:
    """Wait for a later second than that of `since`, a `time.time()`. Kubernetes notes creations by the second."""
    until(lambda: int(time.time()) > int(since), what="the next second")


def until(true: Callable[[], T], *, what: str = "", within_s: float = 300.0) -> T:
    """Return the first true answer. Raises TimeoutError, with `what` was waited for and the last answer."""
    limit = time.monotonic() + within_s
    while not (outcome := true()):
        if time.monotonic() > limit:
            raise TimeoutError(f"waited {within_s:g} s for {what or true}; last: {outcome!r}")
        time.sleep(LOOK_EVERY_S)
    return outcome
