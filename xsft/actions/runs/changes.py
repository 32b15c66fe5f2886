"""Read one run again when its JobSet changes, and at the usual times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from xsft.actions.runs.waiting import Clock
from xsft.effects.cluster.jobset_watch import pause_until_changed
from xsft.effects.machine import clock
from xsft.effects.runs.runs import Runs
from xsft.run_query import RunQuery, query_of
from xsft.states.lookup import silent
from xsft.states.model import Observation, Status


def changes_of(runs: Runs) -> tuple[RunQuery, Clock]:
    """Return a query, and a clock whose pauses end early when what the query saw last has changed."""
    query = query_of(runs)
    changes = _Changes(runs=runs)
    return replace(query, keep=changes.keep), Clock(monotonic=clock.monotonic, pause=changes.pause)


class _Changes(Struct, kw_only=True):
    runs: Runs
    seen: tuple[Observation, ...] = ()

    def keep(self, seen: Sequence[tuple[Observation, Status]]) -> None:
        self.seen = tuple(one for one, _ in seen)
        self.runs.keep(seen)

    def pause(self, seconds: float) -> None:
        """Pause; the watch that ends it early needs exactly one live run whose cluster has just answered."""
        living = [one for one in self.seen if one.jobset and not one.jobset.terminal and silent(one) is None]
        if len(living) != 1 or living[0].jobset is None:
            clock.pause(seconds)
            return
        connect = partial(self.runs.cluster, living[0].cluster or "")
        pause_until_changed(connect, living[0].jobset, seconds=seconds)
