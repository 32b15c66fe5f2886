"""The time to wait for a cluster, its login included, before its last known state is shown."""

from __future__ import annotations

from typing import TypeVar

from xsft.base.aliases import ShowLine
from xsft.base.errors import Unreachable
from xsft.machine.deadline import Deadline
from xsft.machine.parallel import StartedCall

T = TypeVar("T")

SEVERAL_S = 10.0
"""Limit if several clusters are queried: the answers of the others are shown then."""
ALONE_S = 60.0
"""Limit if only one cluster is queried. One that says nothing fails sooner (`lists.PATIENCE`)."""
SAY_AFTER_S = 1.0
"""After this time the cluster being waited for is printed."""


def deadline_of(*, alone: bool) -> Deadline:
    """Return the deadline of the clusters that are queried now."""
    return Deadline.after(ALONE_S if alone else SEVERAL_S)


def wait_for(
    started: StartedCall[T],
    deadline: Deadline,
    *,
    name: str,
    alone: bool,
    say: ShowLine,
    say_after_s: float = SAY_AFTER_S,
) -> T:
    """Return the query's result, or raise what it raised; every `say_after_s` name the cluster. Raises Unreachable at
    the deadline.
    """
    while not started.ended(min(deadline.left_s, say_after_s)):
        if not deadline.left_s:
            raise _given_up(alone=alone)
        say(f"waiting for {name}")
    return started.result()


def _given_up(*, alone: bool) -> Unreachable:
    fix = "Check the network, the VPN and the login, and try again."
    if alone:
        return Unreachable(f"no answer within {ALONE_S:g} s; the state of its runs is unknown.", fix=fix)
    return Unreachable(
        f"no answer within {SEVERAL_S:g} s; the state of its runs is unknown.",
        fix=f"{fix} With --place or --context xsft waits longer.",
    )
