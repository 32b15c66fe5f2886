"""The lists from which the states of all runs of a namespace are told: asked for here, and waited for elsewhere.

Next to nothing is loaded for asking, so that who looks has asked before it loads the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from xsft.effects.cluster import Cluster
from xsft.effects.cluster_api import Patience
from xsft.effects.cluster_reads import Reads
from xsft.effects.parallel import Started, start
from xsft.effects.reductions import Reductions, code, kept
from xsft.launchers.labels import FIRST_HOSTS

if TYPE_CHECKING:
    from xsft.launchers.observed_queue import Owned
    from xsft.states.model import JobSet, Pod

T = TypeVar("T")

PATIENCE = Patience(tries=3, budget_s=5.0, connect_timeout_s=5.0, read_timeout_s=10.0)
"""For looking at runs: who waits for an answer would rather have the last known state soon."""

PENDING = "status.phase=Pending"


class Lists(Struct, frozen=True, kw_only=True):
    """Of one namespace of one cluster, under way."""

    reads: Reads
    namespace: str
    jobsets: Started[tuple[JobSet, ...]]
    workloads: Started[tuple[Owned, ...]]
    """Kueue's."""
    before: Callable[[], tuple[JobSet, ...]] = tuple
    """The JobSets as they were at the last look; empty where nobody knows."""

    def ask_pods(self) -> Started[tuple[Pod, ...]]:
        """The first one of each Job where that is pending. The server looks at every pod of the namespace for it."""
        return start(lambda: self.reads.cached_pods(namespace=self.namespace, labels=FIRST_HOSTS, fields=PENDING))


def ask_lists(cluster: Cluster, *, namespace: str, cache: Path | None = None) -> Lists:
    """`cache`: the folder that keeps what was made of the objects, for the next time."""
    reads = cluster.reads
    jobsets = workloads = None
    if cache is not None:
        kept_here = partial(kept, cache, made_by=start(code), context=cluster.context, namespace=namespace)
        jobsets = kept_here(plural="jobsets", kind=_jobset)
        workloads = kept_here(plural="workloads", kind=_owned)
    return Lists(
        reads=reads,
        namespace=namespace,
        jobsets=start(partial(_saved, lambda: reads.jobsets(namespace=namespace, known=jobsets), jobsets)),
        workloads=start(partial(_saved, lambda: reads.workloads(namespace=namespace, known=workloads), workloads)),
        before=partial(_trained, jobsets),
    )


def _saved(ask: Callable[[], T], known: Reductions[Any] | None) -> T:
    found = ask()
    if known is not None:
        known.save()
    return found


def _trained(known: Reductions[JobSet | None] | None) -> tuple[JobSet, ...]:
    return () if known is None else tuple(one for one in known.before() if one is not None)


def _jobset() -> Any:
    from xsft.states.model import JobSet

    return JobSet | None


def _owned() -> Any:
    from xsft.launchers.observed_queue import Owned

    return Owned
