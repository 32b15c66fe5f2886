from __future__ import annotations

import threading

import pytest

from xsft.base.errors import TimedOut, Unreachable
from xsft.machine.deadline import NEVER, Deadline
from xsft.machine.parallel import if_slow


def test_the_sooner_of_two_deadlines_counts() -> None:
    assert NEVER.sooner(5.0).left_s == pytest.approx(5.0, abs=0.5)
    assert Deadline.after(1.0).sooner(5.0).left_s == pytest.approx(1.0, abs=0.5)
    assert Deadline.after(-1.0).left_s == 0.0
    assert Deadline.after(-1.0).extended(5.0).left_s == pytest.approx(4.0, abs=0.5)


def test_a_look_that_ends_in_time_says_nothing() -> None:
    lines: list[str] = []
    assert NEVER.look("the cluster", lambda: 7, say=lines.append) == 7
    with pytest.raises(Unreachable):
        NEVER.look("the cluster", unreachable, say=lines.append)
    assert lines == []


def unreachable() -> None:
    raise Unreachable("no")


def test_only_a_slow_block_calls_the_function_once() -> None:
    calls: list[int] = []
    with if_slow(lambda: calls.append(1), after_s=60.0):
        pass
    called = threading.Event()
    with if_slow(called.set, after_s=0.01):
        assert called.wait(60.0)
    assert calls == []


def test_a_slow_look_says_what_it_waits_for_and_ends_at_the_deadline() -> None:
    lines: list[str] = []
    with pytest.raises(TimedOut, match=r"Timed out: the cluster did not answer within \d+ s"):
        Deadline.after(0.2).look("the cluster", threading.Event().wait, say=lines.append, say_after_s=0.05)
    assert lines == ["waiting for the cluster, at most 0 s"]
