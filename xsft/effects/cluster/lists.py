"""The lists from which the states of all runs of a namespace are told, requested at once.

Loads little, so that the requests are under way before the rest of xsft is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from xsft.effects.cluster.api import Patience
from xsft.effects.cluster.cluster import Cluster
from xsft.effects.cluster.reads import Reads
from xsft.effects.machine.parallel import Started, start
from xsft.launchers.labels import FIRST_HOSTS

if TYPE_CHECKING:
    from xsft.reading.queue import Owned
    from xsft.states.model import JobSet, Pod

PATIENCE = Patience(tries=3, budget_s=5.0, connect_timeout_s=5.0, read_timeout_s=10.0)
"""For looking at runs: the last known state soon is better than today's late."""

PENDING = "status.phase=Pending"


class Lists(Struct, frozen=True, kw_only=True):
    """Of one namespace of one cluster, under way."""

    reads: Reads
    namespace: str
    jobsets: Started[tuple[JobSet, ...]]
    workloads: Started[tuple[Owned, ...]]
    """Kueue's."""

    def ask_pods(self) -> Started[tuple[Pod, ...]]:
        """Request the first pod of each Job where that pod is pending; the server scans all pods of the namespace."""
        return start(lambda: self.reads.cached_pods(namespace=self.namespace, labels=FIRST_HOSTS, fields=PENDING))


def ask_lists(cluster: Cluster, *, namespace: str) -> Lists:
    """Request both lists; neither is waited for here."""
    reads = cluster.reads
    return Lists(
        reads=reads,
        namespace=namespace,
        jobsets=start(lambda: reads.jobsets(namespace=namespace)),
        workloads=start(lambda: reads.workloads(namespace=namespace)),
    )
