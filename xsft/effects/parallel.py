"""Questions asked at the same time, each in a thread of its own, none waited for longer than wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from xsft.errors import Unreachable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Started(Generic[T_co]):
    """An answer under way. Its thread is left behind where nobody waits for it; it ends with the process."""

    def __init__(self, look: Callable[[], T_co]) -> None:
        self._look = look
        self._answer: list[T_co] = []
        self._failure: list[Exception] = []
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

    def _work(self) -> None:
        try:
            self._answer.append(self._look())
        except Exception as failed:  # noqa: BLE001 - handed to the caller, whatever it is
            self._failure.append(failed)


def start(look: Callable[[], T]) -> Started[T]:
    return Started(look)
