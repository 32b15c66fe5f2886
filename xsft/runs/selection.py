"""The runs that the verbs about runs read: from clusters and from this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xsft.cluster.sources import PlaceQuery
from xsft.runs.read_all import Runs, runs_at_place, runs_for

if TYPE_CHECKING:
    from xsft.planning.steps import Planned


def runs_of(
    names: Sequence[str], *, place: str | None, context: str | None, namespace: str | None, everything: bool = True
) -> Runs:
    """Return the runs of these names (none: all) in this place or context; None: in all of places.yaml, the clusters
    of runs submitted from this machine, and this machine.
    """
    place_query = PlaceQuery(place=place, context=context, namespace=namespace)
    return runs_for(place_query, names=names, everything=everything)


def runs_at(plan: Planned) -> Runs:
    """Return the runs of the cluster and namespace that the plan names."""
    return runs_at_place(plan.run.required_place(), namespace=plan.run.namespace, name=plan.run_name)
