"""The time by which a verb's looks at clusters, buckets and registries have ended: one value, passed down to each
request. Timeouts between two bytes do not limit a server that sends a byte now and then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from xsft.base.aliases import ShowLine
from xsft.base.errors import TimedOut
from xsft.machine import clock
from xsft.machine.parallel import SAY_AFTER_S, if_slow, start

T = TypeVar("T")

LOOKS_S = 120.0
"""Limit for all looks of a verb before it changes anything, if it has no --timeout; the login comes before."""


@dataclass(frozen=True)
class Deadline:
    until: float
    """By `clock.monotonic`."""

    @staticmethod
    def after(seconds: float) -> Deadline:
        return Deadline(clock.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        return max(0.0, self.until - clock.monotonic())

    def sooner(self, seconds: float) -> Deadline:
        """Return this deadline, or the one after so many seconds if that is sooner."""
        return min(self, Deadline.after(seconds), key=lambda deadline: deadline.until)

    def extended(self, seconds: float) -> Deadline:
        return Deadline(self.until + seconds)

    def look(self, what: str, look: Callable[[], T], *, say: ShowLine, say_after_s: float = SAY_AFTER_S) -> T:
        """Return what `look` returns, which must change nothing: it is abandoned at the deadline. `what`: named by
        `say` after `say_after_s`. Raises TimedOut, and as `look` does.
        """
        began = clock.monotonic()
        started = start(look)
        with if_slow(lambda: say(f"waiting for {what}, at most {self.left_s:.0f} s"), after_s=say_after_s):
            if not started.ended(self.left_s):
                message = f"Timed out: {what} did not answer within {clock.monotonic() - began:.0f} s."
                raise TimedOut(message, fix="Check the network and the login, and run the command again.")
        return started.result()


NEVER = Deadline(math.inf)
