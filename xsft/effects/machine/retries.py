"""Repeats a request: after growing pauses, within a budget, and no sooner than the server's Retry-After."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from xsft.effects.machine import clock

_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")


class Retries:
    """The tries of one request, against one budget. `pauses_s`: seconds before each further try. `give_up_s`: seconds
    from now after which no further try begins.
    """

    def __init__(
        self,
        pauses_s: Sequence[float],
        *,
        budget_s: float = math.inf,
        give_up_s: float = math.inf,
        sleep: Callable[[float], None] = clock.pause,
    ) -> None:
        self._pauses_s, self._left_s, self._sleep = pauses_s, budget_s, sleep
        self._until = clock.monotonic() + give_up_s
        self._done = 0

    def again(self, asked_s: float | None = None, *, at_most: int | None = None) -> bool:
        """Pause, then return True; return False at once if no try or not enough of the budget is left. `asked_s`: the
        server asks for at least this pause. `at_most`: fewer further tries than there are pauses.
        """
        if self._done >= len(self._pauses_s[:at_most]) or clock.monotonic() > self._until:
            return False
        pause_s = max(self._pauses_s[self._done], asked_s or 0.0)
        if pause_s > self._left_s:
            return False
        self._done, self._left_s = self._done + 1, self._left_s - pause_s
        self._sleep(pause_s)
        return True


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`; None if it is missing or holds a date."""
    header = headers.get("Retry-After") or ""
    return float(header) if _SECONDS.fullmatch(header) else None
