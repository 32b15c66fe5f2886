"""A cluster is waited for until its deadline; then it is reported as unread."""

from __future__ import annotations

import threading

import pytest

from xsft.base.errors import Unreachable
from xsft.machine.deadline import NEVER, Deadline
from xsft.machine.parallel import start
from xsft.runs.patience import ALONE_S, SEVERAL_S, wait_for


@pytest.mark.parametrize(("alone", "limit_s"), [(True, ALONE_S), (False, SEVERAL_S)])
def test_the_awaited_cluster_is_shown_and_then_skipped(alone: bool, limit_s: float) -> None:
    never, said = threading.Event(), list[str]()
    with pytest.raises(Unreachable, match=rf"no answer within {limit_s:g} s;") as caught:
        wait_for(start(never.wait), Deadline.after(0.3), name="lab", alone=alone, say=said.append, say_after_s=0.1)
    never.set()
    assert set(said) == {"waiting for lab"}
    assert ("--place or --context" in caught.value.fix) != alone


def test_a_finished_result_is_used_even_after_the_deadline() -> None:
    started = start(lambda: 7)
    assert started.ended(10)
    assert wait_for(started, Deadline.after(0.0), name="lab", alone=False, say=lambda _: None) == 7


def test_wait_for_raises_the_error_of_the_request() -> None:
    def fails() -> int:
        raise Unreachable("connection refused")

    with pytest.raises(Unreachable, match="connection refused"):
        wait_for(start(fails), NEVER, name="lab", alone=True, say=lambda _: None)
