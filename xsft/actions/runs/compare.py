"""Read the losses of several runs, to compare them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from xsft.actions.runs.log_sources import Logs
from xsft.effects.runs.losses import LossCurve
from xsft.effects.runs.runs import Runs
from xsft.errors import Unknown
from xsft.problems import Problem
from xsft.run_query import RunQuery, look, query_of
from xsft.states.folding import FoldedRun
from xsft.states.lookup import one_run, require_names
from xsft.states.worth import doubts


class CompareWorld(Struct, frozen=True, kw_only=True):
    query: RunQuery
    read: Callable[[tuple[FoldedRun, ...]], tuple[LossCurve, ...]]
    """Returns the curve of each run, in that order. Never raises for a run that cannot be read: the curve says why."""


def compare_world(runs: Runs) -> CompareWorld:
    """Return the world that asks the real clusters and this machine."""
    return CompareWorld(query=query_of(runs), read=Logs(runs=runs).curves)


def curves_of(names: Sequence[str], world: CompareWorld) -> tuple[tuple[LossCurve, ...], tuple[Problem, ...]]:
    """Return the curves, and warnings about runs that are not worth comparing."""
    found, rows = look(world.query)
    require_names(names, rows, found)
    hits = tuple(one_run(name, rows, found) for name in names)
    curves = world.read(hits)
    if not any(one.points for one in curves):
        why = "; ".join(f"{one.run_name}: {', '.join(one.problems) or 'no output yet'}" for one in curves)
        raise Unknown(f"No loss could be read for any of these runs: {why}.", fix="xsft status shows their state.")
    return curves, tuple(one for hit in hits for one in doubts(hit.row))
