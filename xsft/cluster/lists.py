"""The lists from which the states of all runs of a namespace are computed, requested at once."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from xsft.cluster.api import Patience
from xsft.cluster.cluster import Cluster
from xsft.cluster.queue_fields import JOB_UID_LABEL
from xsft.cluster.reads import Reads
from xsft.machine.parallel import StartedCall, start
from xsft.records.labels import FIRST_HOSTS, SERVERS

if TYPE_CHECKING:
    from xsft.cluster.observation import Pod, RunObject
    from xsft.cluster.queue_fields import Owned

PATIENCE = Patience(tries=3, longest_s=5.0, connect_timeout_s=5.0, read_timeout_s=10.0)
"""For reading runs: the last known state shown soon is better than today's state shown late."""

PENDING = "status.phase=Pending"


class NamespaceLists(Struct, frozen=True, kw_only=True):
    """The requested lists of one namespace of one cluster."""

    reads: Reads
    namespace: str
    jobsets: StartedCall[tuple[RunObject, ...]]
    workloads: StartedCall[tuple[Owned, ...]]
    """Kueue's Workloads."""
    servers: StartedCall[tuple[RunObject, ...]]
    """The Deployments of servers."""

    def ask_server_pods(self) -> StartedCall[tuple[Pod, ...]]:
        """Request the pods of all servers."""
        return start(lambda: self.reads.cached_pods(namespace=self.namespace, labels=SERVERS))

    def ask_pods(self) -> StartedCall[tuple[Pod, ...]]:
        """Request the first pod of each Job whose first pod is pending; the server scans all pods of the namespace."""
        return start(lambda: self.reads.cached_pods(namespace=self.namespace, labels=FIRST_HOSTS, fields=PENDING))


def ask_lists(cluster: Cluster, *, namespace: str, names: Collection[str] = ()) -> NamespaceLists:
    """Request all three lists; does not wait for any. `names`: only the JobSets and Workloads of these runs."""
    reads = cluster.reads
    if names:
        jobsets = start(partial(reads.jobsets_named, names, namespace=namespace))
        workloads = start(partial(_workloads_of, reads, jobsets, namespace=namespace))
    else:
        jobsets = start(partial(reads.jobsets, namespace=namespace))
        workloads = start(partial(reads.workloads, namespace=namespace))
    servers = start(partial(reads.servers, namespace=namespace))
    return NamespaceLists(reads=reads, namespace=namespace, jobsets=jobsets, workloads=workloads, servers=servers)


def _workloads_of(reads: Reads, jobsets: StartedCall[tuple[RunObject, ...]], *, namespace: str) -> tuple[Owned, ...]:
    """Return the Workloads of these JobSets, once the JobSets are known."""
    uids = sorted(jobset.uid for jobset in jobsets.result())
    return reads.workloads(namespace=namespace, labels=f"{JOB_UID_LABEL} in ({','.join(uids)})") if uids else ()
