"""The time to wait for a cluster: as long as it shows activity, and a short time after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from xsft.base.aliases import ShowLine
from xsft.base.errors import Unreachable
from xsft.machine import clock
from xsft.machine.parallel import StartedCall

T = TypeVar("T")

QUIET_S = 5.0
"""Seconds of silence after which the answers of other clusters are shown without this one."""
ALONE_S = 15.0
"""The same if only one cluster is queried."""
LOGIN_S = 15.0
"""Time for its login programs while other clusters are shown; a single cluster gets `login.LOGIN_TIMEOUT_S`."""
AT_MOST_S = 120.0
"""Maximum time since the login, even if bytes keep arriving."""
SAY_AFTER_S = 1.0
"""After this time the cluster being waited for is printed."""


class ActiveConnection(Protocol):
    @property
    def heard_at(self) -> float:
        """Return the time of the last activity, by `clock.monotonic`."""


class Pulse:
    """The activity of one queried cluster: written by the thread that queries it, read by the thread that waits."""

    def __init__(self, *, now: Callable[[], float] = clock.monotonic) -> None:
        self._now = now
        self._began = now()
        self._cluster: ActiveConnection | None = None
        self._connected_at = 0.0
        self.left = False
        """The waiting thread has given up."""

    def connected(self, cluster: ActiveConnection) -> None:
        self._connected_at = self._now()
        self._cluster = cluster

    @property
    def logging_in(self) -> bool:
        return self._cluster is None

    def quiet_s(self) -> float:
        """Return the seconds since the last activity, a running login included."""
        if self._cluster is None:
            return self._now() - self._began
        return self._now() - max(self._connected_at, self._cluster.heard_at)

    def patience_s(self, *, alone: bool) -> float:
        """Return how many more seconds to wait as of now; 0 or less: do not wait."""
        if self._cluster is None:
            return float("inf") if alone else LOGIN_S - self.quiet_s()
        return min(_limit_s(alone=alone) - self.quiet_s(), self.left_s())

    def left_s(self) -> float:
        """Return the seconds until the maximum time since the login."""
        return self._connected_at + AT_MOST_S - self._now()


def wait_for(
    started: StartedCall[T], pulse: Pulse, *, name: str, alone: bool, say: ShowLine, say_after_s: float = SAY_AFTER_S
) -> T:
    """Return the query's result, or raise what it raised; every `say_after_s` name the cluster. Raises Unreachable if
    it is silent for too long.
    """
    while not started.ended(max(0.0, min(pulse.patience_s(alone=alone), say_after_s))):
        if pulse.patience_s(alone=alone) <= 0:
            pulse.left = True
            raise _given_up(pulse, alone=alone)
        say(f"waiting for {name}")
    return started.result()


def _limit_s(*, alone: bool) -> float:
    return ALONE_S if alone else QUIET_S


def _given_up(pulse: Pulse, *, alone: bool) -> Unreachable:
    limit_s, quiet_s = _limit_s(alone=alone), pulse.quiet_s()  # a byte may have arrived since the limit was reached
    fix = "Check the network and the VPN, and try again."
    if pulse.logging_in:
        said, fix = (
            f"the login to the cluster timed out after {LOGIN_S:g} s",
            "Log in manually first, then try again.",
        )
    elif quiet_s < limit_s and pulse.left_s() <= 0:
        said = f"the answer was not complete after {AT_MOST_S:g} s"
    else:
        said = f"no answer for {max(quiet_s, limit_s):.0f} s"
    longer = "" if alone else " With --place or --context xsft waits longer."
    return Unreachable(f"{said}; the state of its runs is unknown.", fix=f"{fix}{longer}")
