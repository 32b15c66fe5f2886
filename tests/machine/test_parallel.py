from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from tests.until import until
from xsft.base.errors import Unreachable
from xsft.machine.parallel import Questions, all_answers, answers, call_within, start


def test_within_returns_the_result_or_raises_the_error() -> None:
    assert call_within(5, lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        call_within(5, lambda: 1 // 0)


def test_answers_come_in_the_order_of_the_questions() -> None:
    looks = [lambda i=i: time.sleep(0.01 * (3 - i)) or i for i in range(3)]  # type: ignore[misc]
    assert answers(looks, threads=3, timeout_s=30) == [0, 1, 2]
    assert answers(looks, threads=1, timeout_s=30) == [0, 1, 2]
    assert answers([], threads=3, timeout_s=30) == []


def test_a_late_result_is_none_and_is_not_waited_for() -> None:
    never = threading.Event()
    began = time.monotonic()
    assert answers([lambda: 1, lambda: never.wait(60)], threads=2, timeout_s=1.5) == [1, None]
    assert time.monotonic() - began < 30
    never.set()


@pytest.mark.parametrize("kind", [IndexError, ValueError, Unreachable])
def test_an_error_of_a_look_is_raised(kind: type[Exception]) -> None:
    def fails() -> int:
        raise kind("wrong")

    with pytest.raises(kind, match="wrong"):
        answers([fails], threads=1, timeout_s=30)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failed_look_does_not_keep_the_others_from_running(threads: int) -> None:
    calls: list[int] = []

    def look(i: int) -> int:
        calls.append(i)
        if i in (1, 3):
            raise Unreachable(f"{i} is silent")
        return i

    with pytest.raises(Unreachable, match="1 is silent"):
        answers([partial(look, i) for i in range(6)], threads=threads, timeout_s=30)
    assert sorted(calls) == list(range(6))


def test_a_result_that_is_late_is_unreachable() -> None:
    never = threading.Event()
    with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
        start(never.wait).result(0.1)
    never.set()


@pytest.mark.loopback
def test_every_waits_for_all_results_and_reports_each_progress_line_once() -> None:
    asked, lines, done = iter(("", "a", "a")), list[str](), threading.Event()

    def waiting() -> str:
        line = next(asked, None)
        if line is None:
            done.set()
        return line or "a"

    assert all_answers([lambda: done.wait(60), lambda: 2], threads=2, waiting=waiting, progress=lines.append) == [
        True,
        2,
    ]
    assert lines == ["a"]
    assert all_answers([], threads=2) == []


def test_a_question_asked_concurrently_is_sent_once() -> None:
    calls: list[tuple[str, int]] = []
    answer = threading.Event()

    def look(path: str, *, limit: int) -> str:
        calls.append((path, limit))
        answer.wait(60)
        return path.upper()

    questions = Questions()
    ask = questions.once(look, subject=lambda path, **_limit: path)
    waiting = [start(partial(ask, "a", limit=limit)) for limit in (1, 1, 2)]
    until(lambda: len(calls) == 2)
    assert questions.waiting() == ("a",)
    answer.set()
    assert [future.result() for future in waiting] == ["A"] * 3
    assert (sorted(calls), questions.waiting()) == ([("a", 1), ("a", 2)], ())


def test_an_error_is_raised_for_every_caller_of_a_question() -> None:
    def fails(path: str) -> str:
        raise Unreachable(path, fix="")

    ask = Questions().once(fails, subject=str)
    for _ in range(2):
        with pytest.raises(Unreachable, match="a"):
            ask("a")
