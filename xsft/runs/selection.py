"""The runs that the verbs about runs read: from clusters and from this machine."""

from __future__ import annotations

from collections.abc import Sequence

from xsft.cluster.sources import PlaceQuery
from xsft.runs.read_all import Runs, runs_for


def runs_of(
    names: Sequence[str], *, place: str | None, context: str | None, namespace: str | None, everything: bool = True
) -> Runs:
    """Return the runs of these names (none: all) in this place or context; None: in all of places.yaml, the clusters
    of runs submitted from this machine, and this machine.
    """
    place_query = PlaceQuery(place=place, context=context, namespace=namespace)
    return runs_for(place_query, names=names, everything=everything)
