"""Runs queries at the same time, each with a time limit.

Uses the futures of `concurrent.futures`, not its executors: the process waits at exit for an executor's threads,
whatever they wait for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, Generic, ParamSpec, TypeVar, cast

from xsft.base.errors import Unreachable
from xsft.base.lenient import ShowLine
from xsft.machine import clock

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SAY_AFTER_S = 2.0
"""After this time a verb says what it waits for."""
LAST_S = 1.0
"""Seconds for the last call of `repeat_call`, which only updates a display."""


class StartedCall(Generic[T_co]):
    """A result in progress. Its thread is abandoned if no caller waits for it; it ends with the process."""

    def __init__(self, look: Callable[[], T_co]) -> None:
        self._answer: Future[T_co] = Future()
        threading.Thread(target=_settle, args=(self._answer, look), daemon=True, name="xsft-look").start()

    def result(self, timeout_s: float | None = None) -> T_co:
        """Return what `look` returned, or raise what it raised. Raises Unreachable if that takes longer."""
        if timeout_s is not None and not self.ended(timeout_s):
            raise Unreachable(f"no answer within {timeout_s:g} s", fix="Check the network, and try again.")
        return self._answer.result()

    def ended(self, timeout_s: float) -> bool:
        """Wait for at most `timeout_s`. Return whether it has finished."""
        return not wait((self._answer,), timeout=min(max(0.0, timeout_s), threading.TIMEOUT_MAX)).not_done


def _settle(answer: Future[T], look: Callable[[], T]) -> None:
    try:
        answer.set_result(look())
    except BaseException as failed:  # noqa: BLE001 - handed to the caller, whatever it is
        answer.set_exception(failed)


def start(look: Callable[[], T]) -> StartedCall[T]:
    return StartedCall(look)


def call_within(seconds: float, look: Callable[[], T]) -> T:
    """Return what `look` returns. Raises Unreachable after `seconds`: name resolution and TLS have no timeout of their
    own. The thread is abandoned then; it holds nothing and ends with the process.
    """
    return start(look).result(seconds)


@contextmanager
def if_slow(act: Callable[[], None], *, after_s: float = SAY_AFTER_S) -> Iterator[None]:
    """Call `act` once, from a thread of its own, unless the block ends before that."""
    timer = threading.Timer(after_s, act)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def repeat_call(do: Callable[[], None], *, every_s: float) -> Iterator[None]:
    """Call `do` every `every_s` seconds from a thread of its own until the block ends; then wait a moment for it."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(every_s):
            do()

    worker = start(work)
    try:
        yield
    finally:
        ended.set()
        worker.ended(LAST_S)


def answers(looks: Sequence[Callable[[], T]], *, threads: int, timeout_s: float) -> list[T | None]:
    """Return what each function returned, in the same order; None for those that did not finish in time. All are
    called, even if one raises; then the first of those errors is raised.
    """
    futures: list[Future[T]] = [Future() for _ in looks]
    waiting = deque(zip(futures, looks, strict=True))
    end = clock.monotonic() + timeout_s

    def work() -> None:
        while clock.monotonic() < end and waiting:
            try:
                answer, look = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            _settle(answer, look)

    for worker in [start(work) for _ in range(min(threads, len(looks)))]:
        worker.ended(end - clock.monotonic())
    finished = [answer if answer.done() else None for answer in futures]
    for answer in finished:
        if answer is not None and (failure := answer.exception()):
            raise failure
    return [None if answer is None else answer.result() for answer in finished]


def all_answers(
    looks: Sequence[Callable[[], T]],
    *,
    threads: int,
    waiting: Callable[[], str] = lambda: "",
    progress: ShowLine = lambda _line: None,
) -> list[T]:
    """Return what each function returned, in the same order, however long it takes. Raises as `answers` does.

    `waiting`: returns a line about the pending queries, each second; `progress` gets the line if it changed and is not
    empty.
    """
    call = start(lambda: answers(looks, threads=threads, timeout_s=threading.TIMEOUT_MAX / 2))
    last_line = ""
    while not call.ended(TOLD_EVERY_S):
        line = waiting()
        if line not in ("", last_line):
            last_line = line
            progress(line)
    return cast("list[T]", call.result())


TOLD_EVERY_S = 1.0


class Questions:
    """Queries shared by threads: each is sent once, and every thread that needs it gets its answer."""

    def __init__(self) -> None:
        self._begun: dict[Any, tuple[str, StartedCall[Any]]] = {}
        self._lock = threading.Lock()

    def once(self, look: Callable[P, T], *, subject: Callable[P, str]) -> Callable[P, T]:
        """Return `look` with its answers shared; its arguments are hashable. `subject`: names a query by its
        arguments."""

        def ask(*args: P.args, **named: P.kwargs) -> T:
            key = (look, args, tuple(sorted(named.items())))
            with self._lock:
                if key not in self._begun:
                    self._begun[key] = (subject(*args, **named), start(lambda: look(*args, **named)))
            return cast("T", self._begun[key][1].result())

        return ask

    def waiting(self) -> tuple[str, ...]:
        """Return the subjects of the pending queries, each once."""
        with self._lock:
            begun = tuple(self._begun.values())
        return tuple(dict.fromkeys(subject for subject, call in begun if not call.ended(0)))
