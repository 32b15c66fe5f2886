"""A cluster is waited for while it sends data, within limits; then it is reported as silent."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from xsft.base.errors import Unreachable
from xsft.machine.parallel import start
from xsft.runs.patience import ALONE_S, AT_MOST_S, LOGIN_S, QUIET_S, Pulse, wait_for


@dataclass
class Clock:
    at: float = 100.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Heard:
    heard_at: float = float("-inf")


def test_a_silent_cluster_has_a_time_limit() -> None:
    clock = Clock()
    pulse = Pulse(now=clock)
    assert (pulse.patience_s(alone=False), pulse.patience_s(alone=True)) == (LOGIN_S, float("inf"))
    clock.at += 3
    assert pulse.patience_s(alone=False) == LOGIN_S - 3
    pulse.connected(Heard(heard_at=50.0))  # a connection of an earlier look
    assert (pulse.patience_s(alone=False), pulse.patience_s(alone=True)) == (QUIET_S, ALONE_S)
    clock.at += 4
    assert (pulse.patience_s(alone=False), pulse.quiet_s()) == (QUIET_S - 4, 4)


def test_each_received_byte_extends_the_wait_up_to_its_limit() -> None:
    clock, cluster = Clock(), Heard()
    pulse = Pulse(now=clock)
    pulse.connected(cluster)
    for _ in range(int(AT_MOST_S / 4) - 1):
        clock.at += 4
        cluster.heard_at = clock.at
        assert pulse.patience_s(alone=False) > 0
    clock.at += 4
    cluster.heard_at = clock.at
    assert pulse.patience_s(alone=False) == pulse.patience_s(alone=True) == 0
    never = threading.Event()
    with pytest.raises(Unreachable, match="not complete after 120 s;") as caught:
        wait_for(start(never.wait), pulse, name="lab", alone=True, say=lambda _: None)
    never.set()
    assert "alone" not in caught.value.fix


def test_the_awaited_cluster_is_shown_and_then_skipped() -> None:
    clock, never, said = Clock(), threading.Event(), list[str]()
    pulse = Pulse(now=clock)
    pulse.connected(Heard())

    def say(line: str) -> None:
        said.append(line)
        clock.at += QUIET_S / 2

    with pytest.raises(Unreachable, match="no answer for") as caught:
        wait_for(start(never.wait), pulse, name="lab", alone=False, say=say, say_after_s=0.01)
    never.set()
    assert said == ["waiting for lab"] * 2
    assert pulse.left
    assert "--place or --context" in caught.value.fix


class HeardLate:
    """A cluster whose first byte comes when its silence has just been measured."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.asked = clock, 0

    @property
    def heard_at(self) -> float:
        self.asked += 1
        return self.clock.at if self.asked > 2 else float("-inf")


def test_a_byte_that_arrives_at_the_deadline_does_not_change_the_reason() -> None:
    clock, never = Clock(), threading.Event()
    pulse = Pulse(now=clock)
    pulse.connected(HeardLate(clock))
    clock.at += QUIET_S
    with pytest.raises(Unreachable, match=rf"no answer for {QUIET_S:g} s;"):
        wait_for(start(never.wait), pulse, name="lab", alone=False, say=lambda _: None)
    never.set()


def test_a_finished_result_is_used_even_after_the_deadline() -> None:
    clock = Clock()
    pulse = Pulse(now=clock)
    pulse.connected(Heard())
    started = start(lambda: 7)
    assert started.ended(10)
    clock.at += 1000
    assert wait_for(started, pulse, name="lab", alone=False, say=lambda _: None) == 7
    assert not pulse.left


def test_wait_for_raises_the_error_of_the_request() -> None:
    def fails() -> int:
        raise Unreachable("connection refused")

    with pytest.raises(Unreachable, match="connection refused"):
        wait_for(start(fails), Pulse(), name="lab", alone=True, say=lambda _: None)


def test_a_login_that_does_not_end_is_reported_as_timed_out() -> None:
    clock, never = Clock(), threading.Event()
    pulse = Pulse(now=clock)
    clock.at += LOGIN_S
    with pytest.raises(Unreachable, match=rf"login to the cluster timed out after {LOGIN_S:g} s") as caught:
        wait_for(start(never.wait), pulse, name="lab", alone=False, say=lambda _: None)
    never.set()
    assert caught.value.fix.startswith("Log in manually")
