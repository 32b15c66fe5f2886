"""The stand-in as a test's world: what others do to it is written into its objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tests.fakes.kubeapi import KubeApi
from tests.faults.world import EVERY, Json

JOBSETS = "jobset.x-k8s.io/jobsets"
CLUSTER_QUEUES = "kueue.x-k8s.io/clusterqueues"


@dataclass(frozen=True)
class StandinWorld:
    api: KubeApi
    namespace: str

    @property
    def user(self) -> str:
        return self.api.user

    def jobsets(self) -> dict[str, Json]:
        return self._named(JOBSETS)

    def secrets(self) -> dict[str, Json]:
        return self._named("/secrets")

    def end(self, jobset: str, how: str) -> None:
        self.jobsets()[jobset]["status"] = {"terminalState": how, "conditions": [{"type": how, "status": "True"}]}

    def delete(self, jobset: str) -> None:
        del self.api.objects.of(JOBSETS)[self.namespace, jobset]

    def add_jobset(self, name: str, *, labels: dict[str, str] | None = None) -> None:
        metadata = {"labels": labels or {}}
        self.api.objects.add(JOBSETS, name, namespace=self.namespace, metadata=metadata, spec={"replicatedJobs": []})

    def relabel(self, jobset: str, labels: dict[str, str]) -> None:
        self.jobsets()[jobset]["metadata"]["labels"] |= labels

    def unqueue(self, jobset: str) -> None:
        jobset_object = self.jobsets()[jobset]
        del jobset_object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
        jobset_object["spec"]["suspend"] = True

    def add_unmanaged_secret(self, name: str, data: dict[str, str]) -> None:
        stored = self.api.objects.add("/secrets", name, namespace=self.namespace, data=data)
        stored["metadata"]["managedFields"] = []

    def limit_chips(self, chips: int) -> None:
        self.api.objects.add(CLUSTER_QUEUES, "cluster-queue", spec=cluster_queue(chips))

    def remove_priority(self, name: str) -> None:
        del self.api.objects.of("scheduling.k8s.io/priorityclasses")["", name]

    def grant(self, rules: Sequence[Json]) -> None:
        granted = {pair for rule in rules for pair in product(rule["verbs"], rule["resources"])}
        self.api.denied |= EVERY - granted

    def _named(self, key: str) -> dict[str, Json]:
        every = self.api.objects.of(key).items()
        return {name: jobset_object for (namespace, name), jobset_object in every if namespace == self.namespace}


def cluster_queue(chips: int) -> Json:
    """Return the spec of a ClusterQueue."""
    tpu = {"name": "2xv6e-256", "resources": [{"name": "google.com/tpu", "nominalQuota": chips}]}
    head = [{"name": "cpu", "nominalQuota": "480"}, {"name": "memory", "nominalQuota": "2000G"}]
    return {
        "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "LowerPriority"},
        "namespaceSelector": {},
        "resourceGroups": [
            {"coveredResources": ["google.com/tpu"], "flavors": [tpu]},
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "cpu-user", "resources": head}]},
        ],
    }
