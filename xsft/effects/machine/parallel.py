"""Questions asked at the same time, none waited for longer than wanted.

Not `concurrent.futures`: its threads are waited for at the end of the process, whatever they wait for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from xsft.effects.machine import clock
from xsft.errors import Unreachable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Hurry(Struct, frozen=True, kw_only=True):
    """What need not be waited for."""

    first: int
    """So many are asked in any case; the others only while there is time."""
    until: float
    """`clock.monotonic`."""


class Answering(Protocol[T_co]):
    """An answer that somebody waits for."""

    def ended(self, timeout_s: float) -> bool: ...

    def result(self) -> T_co: ...


class Started(Generic[T_co]):
    """An answer under way. Its thread is left behind where nobody waits for it; it ends with the process."""

    def __init__(self, look: Callable[[], T_co]) -> None:
        self._look = look
        self._answer: list[T_co] = []
        self._failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._work, daemon=True, name="xsft-look")
        self._thread.start()

    def result(self, timeout_s: float | None = None) -> T_co:
        """What `look` returned, or raises what it raised; Unreachable where that takes longer."""
        self._thread.join(None if timeout_s is None else max(0.0, timeout_s))
        if self._failure:
            raise self._failure[0]
        if not self._answer:
            raise Unreachable(f"no answer within {timeout_s:g} s", fix="Check the network, and try again.")
        return self._answer[0]

    def ended(self, timeout_s: float) -> bool:
        """Whether it has come to its end, after so long at most."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            self._answer.append(self._look())
        except BaseException as failed:  # noqa: BLE001 - handed to the caller, whatever it is
            self._failure.append(failed)


def start(look: Callable[[], T]) -> Started[T]:
    return Started(look)


def answers(
    looks: Sequence[Callable[[], T]], *, threads: int, timeout_s: float, hurry: Hurry | None = None
) -> list[T | None]:
    """What each returned, in their order; None for those that did not come in time. All are asked, whatever one of them
    raises; then the first of those failures is raised.
    """
    waiting = deque(enumerate(looks))
    found: dict[int, T] = {}
    failed: dict[int, Exception] = {}
    end = clock.monotonic() + timeout_s

    def work() -> None:
        while clock.monotonic() < end and waiting:
            try:
                i, look = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            if hurry and i >= hurry.first and clock.monotonic() >= hurry.until:
                return
            try:
                found[i] = look()
            except Exception as failure:  # noqa: BLE001 - handed to the caller, whatever it is
                failed[i] = failure

    for worker in [start(work) for _ in range(min(threads, len(looks)))]:
        worker.ended(max(0.0, end - clock.monotonic()))
    if raised := dict(failed):
        raise raised[min(raised)]
    there = dict(found)
    return [there.get(i) for i in range(len(looks))]
