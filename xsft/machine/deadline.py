"""The time by which a verb's looks at clusters, buckets and registries have ended: one value, passed down to each
request. Timeouts between two bytes do not limit a server that sends a byte now and then.

A request is repeated until then, after growing pauses, and no sooner than the server's Retry-After. xsft repeats its
requests only by this module: the retries of urllib3 and of Google's clients, which ignore Retry-After, are switched
off. Only google-auth repeats the refresh of a token by itself, without a pause; and in a pod, which has no xsft,
Google's client does. Polling is no retry: it pauses after an answer, until what it reads has changed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from xsft.base.errors import TimedOut
from xsft.base.lenient import ShowLine
from xsft.machine import clock
from xsft.machine.parallel import SAY_AFTER_S, if_slow, start

T = TypeVar("T")

LOOKS_S = 120.0
"""Limit for all looks of a verb before it changes anything, if it has no --timeout; the login comes before."""
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")


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


class Retries:
    """The tries of one request. `pauses_s`: seconds before each further try. `deadline`: no further try begins after
    it. `longest_s`: no further try if the server asks for a longer pause.
    """

    def __init__(
        self,
        pauses_s: Iterable[float],
        *,
        deadline: Deadline = NEVER,
        longest_s: float = math.inf,
        sleep: Callable[[float], object] = clock.pause,
    ) -> None:
        self._pauses_s = iter(pauses_s)
        self._deadline = deadline
        self._longest_s = longest_s
        self._sleep = sleep
        self.done = 0
        """Number of further tries so far."""

    def again(self, asked_s: float | None = None, *, at_most: float = math.inf) -> bool:
        """Pause, then return True; return False at once if `next_pause_s` gives none."""
        pause_s = self.next_pause_s(asked_s, at_most=at_most)
        if pause_s is not None:
            self._sleep(pause_s)
        return pause_s is not None

    def next_pause_s(self, asked_s: float | None = None, *, at_most: float = math.inf) -> float | None:
        """Count a further try, and return the seconds before it; None if no try or not enough time is left.
        `asked_s`: the server asks for at least this pause. `at_most`: fewer further tries than there are pauses.
        """
        own_s = next(self._pauses_s, None)
        if own_s is None or self.done >= at_most:
            return None
        pause_s = max(own_s, asked_s or 0.0)
        if pause_s > self._longest_s or pause_s >= self._deadline.left_s:
            return None
        self.done += 1
        return pause_s


def doubling_pauses(first_s: float, *, longest_s: float) -> Iterator[float]:
    """Yield pauses without end, each twice as long as the one before it, up to `longest_s`."""
    pause_s = first_s
    while True:
        yield pause_s
        pause_s = min(longest_s, 2 * pause_s)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`; None if it is missing or holds a date."""
    header = headers.get("Retry-After") or ""
    return float(header) if _SECONDS.fullmatch(header) else None
