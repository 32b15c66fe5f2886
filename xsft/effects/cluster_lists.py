"""The lists from which the states of all runs of a namespace are told: asked for here, and waited for elsewhere.

Next to nothing is loaded for asking, so that who looks has asked before it loads the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from xsft.effects.cluster import Cluster
from xsft.effects.cluster_api import Patience
from xsft.effects.cluster_reads import Reads
from xsft.effects.parallel import Started, start
from xsft.launchers.labels import FIRST_HOSTS

if TYPE_CHECKING:
    from xsft.launchers.observed_queue import Owned
    from xsft.states.model import JobSet, Pod

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

    def ask_pods(self) -> Started[tuple[Pod, ...]]:
        """The first one of each Job where that is pending. The server looks at every pod of the namespace for it."""
        return start(lambda: self.reads.cached_pods(namespace=self.namespace, labels=FIRST_HOSTS, fields=PENDING))


def ask_lists(cluster: Cluster, *, namespace: str) -> Lists:
    reads = cluster.reads
    return Lists(
        reads=reads,
        namespace=namespace,
        jobsets=start(lambda: reads.jobsets(namespace=namespace)),
        workloads=start(lambda: reads.workloads(namespace=namespace)),
    )
