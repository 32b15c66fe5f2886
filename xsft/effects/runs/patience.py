"""How long a cluster is waited for: as long as it shows signs of life, and a little longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from xsft.effects.machine import clock
from xsft.effects.machine.parallel import Started
from xsft.errors import Unreachable

T = TypeVar("T")
Say = Callable[[str], None]

QUIET_S = 5.0
"""Silence of a cluster for which the answers of others are not held back."""
ALONE_S = 15.0
"""Of the only one that is asked."""
LOGIN_S = 15.0
"""Its login programs, while others wait; alone they have the time that they take (`login.LOGIN_TIMEOUT_S`)."""
AT_MOST_S = 120.0
"""From the login on, whatever goes on coming."""
SAY_AFTER_S = 1.0
"""Then it is said who is waited for."""


class Heard(Protocol):
    @property
    def heard_at(self) -> float:
        """`clock.monotonic` of its last sign of life."""


class Pulse:
    """Of one cluster that is asked: written by the thread that asks, read by the one that waits."""

    def __init__(self, *, now: Callable[[], float] = clock.monotonic) -> None:
        self._now = now
        self._began = now()
        self._cluster: Heard | None = None
        self._connected_at = 0.0
        self.left = False
        """Nobody waits any more."""

    def connected(self, cluster: Heard) -> None:
        self._connected_at = self._now()
        self._cluster = cluster

    @property
    def logging_in(self) -> bool:
        return self._cluster is None

    def quiet_s(self) -> float:
        """For how long nothing has come, be it because a login takes that long."""
        if self._cluster is None:
            return self._now() - self._began
        return self._now() - max(self._connected_at, self._cluster.heard_at)

    def patience_s(self, *, alone: bool) -> float:
        """How much longer it is waited for, as things are; none where that is not above 0."""
        if self._cluster is None:
            return float("inf") if alone else LOGIN_S - self.quiet_s()
        quiet = (ALONE_S if alone else QUIET_S) - self.quiet_s()
        return min(quiet, self._connected_at + AT_MOST_S - self._now())


def wait_for(started: Started[T], pulse: Pulse, *, name: str, alone: bool, say: Say) -> T:
    """What was asked, or raises what that raises; Unreachable where `name` is silent for too long."""
    while not started.ended(max(0.0, min(pulse.patience_s(alone=alone), SAY_AFTER_S))):
        if pulse.patience_s(alone=alone) <= 0:
            pulse.left = True
            raise _given_up(pulse, alone=alone)
        say(f"waiting for {name}")
    return started.result()


def _given_up(pulse: Pulse, *, alone: bool) -> Unreachable:
    fix = "Check the network and the VPN, and try again."
    if pulse.logging_in:
        said, fix = f"the login to the cluster has not ended in {LOGIN_S:g} s", "Log in by hand first, then try again."
    elif pulse.quiet_s() >= (ALONE_S if alone else QUIET_S):
        said = f"the cluster has said nothing for {pulse.quiet_s():.0f} s"
    else:
        said = f"the cluster has not come to an end in {AT_MOST_S:g} s"
    longer = "" if alone else " Asked alone (--place or --context NAME) it is waited for longer."
    return Unreachable(f"{said}; that tells nothing of its runs.", fix=f"{fix}{longer}")
