"""Read one run again when its JobSet changes, and at the usual times."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from xsft.cluster.jobset_watch import pause_until_changed
from xsft.cluster.observation import Observation
from xsft.machine import clock
from xsft.runs.lookup import RunsAnswer, silent
from xsft.runs.read_all import Runs
from xsft.runs.waiting import Clock, LookAtRuns


def changes_of(runs: Runs) -> tuple[LookAtRuns, Clock]:
    """Return the function that reads the runs, and a clock whose pauses end early when what was read last has
    changed."""
    changes = _RunChanges(runs=runs)
    return changes.look, Clock(monotonic=clock.monotonic, pause=changes.pause)


class _RunChanges(Struct, kw_only=True):
    runs: Runs
    seen: tuple[Observation, ...] = ()

    def look(self) -> RunsAnswer:
        found = self.runs.look()
        self.seen = tuple(one.seen for one in found.rows)
        return found

    def pause(self, seconds: float) -> None:
        """Pause; the watch that ends it early needs exactly one live run whose cluster has just answered."""
        living = [one for one in self.seen if one.jobset and not one.jobset.terminal and silent(one) is None]
        if len(living) != 1 or living[0].jobset is None:
            clock.pause(seconds)
            return
        connect = partial(self.runs.cluster, living[0].cluster or "")
        pause_until_changed(connect, living[0].jobset, seconds=seconds)
