"""Repeats a request: after growing pauses, until a deadline, and no sooner than the server's Retry-After.

xsft repeats its requests only by this module: the retries of urllib3 and of Google's clients, which ignore Retry-After,
are switched off. Only google-auth repeats the refresh of a token by itself, without a pause; and in a pod, which has no
xsft, Google's client does. Polling is no retry: it pauses after an answer, until what it reads has changed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from xsft.machine import clock
from xsft.machine.deadline import NEVER, Deadline

_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")


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
