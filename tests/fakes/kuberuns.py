"""Runs on the stand-in: JobSets of the golden manifests with what controllers would add, in the words of real ones
(study: infra §3).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.fakes.kubeobjects import Json, Objects
from xsft.spec.yamltext import load_yaml

GOLDEN = Path(__file__).parents[1] / "golden"
NAMESPACE = "default"
QUEUE = "multislice-queue"

RUNNING = {"restarts": 0, "replicatedJobsStatus": [{"name": "slice-job", "ready": 2, "active": 2}]}
PARTLY_UP = {"restarts": 0, "replicatedJobsStatus": [{"name": "slice-job", "active": 2}]}
"""A pod of each slice is not running."""
QUEUED = {
    "restarts": 0,
    "conditions": [{"type": "Suspended", "status": "True", "reason": "SuspendedJobs"}],
    "replicatedJobsStatus": [{"name": "slice-job", "suspended": 2}],
}
ADMITTED = {"QuotaReserved": ("True", "QuotaReserved"), "Admitted": ("True", "Admitted")}
WAITING = {"QuotaReserved": ("False", "Pending")}


def ended(kind: str, reason: str, at: str = "2026-11-21T11:00:00Z") -> Json:
    condition = {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at}
    return {**RUNNING, "terminalState": kind, "conditions": [condition]}


@cache
def golden(mode: str) -> Json:
    name = {"mcjax": "deepseek_ultrachat_mcjax", "pathways": "deepseek_ultrachat"}[mode]
    loaded: Json = load_yaml((GOLDEN / f"{name}.manifest.yaml").read_text(encoding="utf-8"))
    return loaded


@dataclass(frozen=True)
class Runs:
    """Adds runs to the stand-in's objects."""

    objects: Objects

    def jobset(self, name: str, *, run: str | None = None, mode: str = "mcjax", status: Json | None = None) -> Json:
        """One that xsft made, with its Workload admitted unless it is queued."""
        copied = copy.deepcopy(golden(mode))
        metadata = copied["metadata"]
        metadata["labels"] |= {"xsft.dev/run": run or name, "xsft.dev/jobset": name, "xpk.google.com/workload": name}
        run_state = RUNNING if status is None else status
        copied["spec"]["suspend"] = run_state == QUEUED
        metadata = {k: v for k, v in metadata.items() if k not in ("name", "namespace")}
        content = {"spec": copied["spec"], "status": run_state}
        return self.objects.add("jobset.x-k8s.io/jobsets", name, namespace=NAMESPACE, metadata=metadata, **content)

    def plain(self, name: str) -> Json:
        """One that xpk alone made."""
        json = self.jobset(name)
        marks = [key for key in json["metadata"]["labels"] if key.startswith(("xsft.dev/", "app."))]
        for key in marks:
            del json["metadata"]["labels"][key]
        del json["metadata"]["annotations"]
        return json

    def workload(self, jobset: Json, *, conditions: dict[str, tuple[str, str]], queue: str = QUEUE) -> Json:
        name = jobset["metadata"]["name"]
        owner = {"kind": "JobSet", "name": name, "uid": jobset["metadata"]["uid"], "controller": True}
        condition_list = [{"type": kind, "status": status, "reason": why} for kind, (status, why) in conditions.items()]
        return self.objects.add(
            "kueue.x-k8s.io/workloads",
            f"jobset-{name}-1a2b3",
            namespace=NAMESPACE,
            metadata={"ownerReferences": [owner], "labels": {"kueue.x-k8s.io/job-uid": owner["uid"]}},
            spec={"queueName": queue, "priority": 500, "active": True},
            status={"conditions": condition_list},
        )

    def admitted(self, name: str, **how: Any) -> Json:
        jobset = self.jobset(name, **how)
        self.workload(jobset, conditions=ADMITTED)
        return jobset

    def queued(self, name: str, *, position: int | None = None, queue: str = QUEUE) -> Json:
        jobset = self.jobset(name, status=QUEUED)
        workload = self.workload(jobset, conditions=WAITING, queue=queue)
        if position is not None:
            self.position(workload, position, queue=queue)
        return jobset

    def position(self, workload: Json, position: int, *, queue: str = QUEUE) -> None:
        key = "visibility.kueue.x-k8s.io/localqueues"
        queue_object = self.objects.of(key).get((NAMESPACE, queue)) or self.objects.add(
            key, queue, namespace=NAMESPACE, items=[]
        )
        metadata = workload["metadata"]
        item = {
            "metadata": {key: metadata[key] for key in ("name", "namespace", "ownerReferences")},
            "priority": 500,
            "localQueueName": queue,
            "positionInLocalQueue": position,
            "positionInClusterQueue": position,
        }
        queue_object["items"].append(item)

    def pod(
        self,
        jobset: str,
        job: str = "slice-job",
        *,
        index: int = 0,
        host: int = 0,
        attempt: int = 0,
        tag: str = "abcde",
        **status: Any,
    ) -> Json:
        labels = {
            "jobset.sigs.k8s.io/jobset-name": jobset,
            "jobset.sigs.k8s.io/replicatedjob-name": job,
            "jobset.sigs.k8s.io/job-index": str(index),
            "jobset.sigs.k8s.io/restart-attempt": str(attempt),
            "batch.kubernetes.io/job-completion-index": str(host),
        }
        running = {"containerStatuses": [{"name": "jax-tpu", "restartCount": 0, "state": {"running": {}}}]}
        return self.objects.add(
            "/pods",
            f"{jobset}-{job}-{index}-{host}-{tag}",
            namespace=NAMESPACE,
            metadata={"labels": labels},
            spec={"nodeName": "n"},
            status={"phase": "Running", **running, **status},
        )
