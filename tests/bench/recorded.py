"""Runs of a real control plane as its etcd holds them, in the states a full cluster has.

What xsft sends (tests/golden/*.manifest.yaml) is admitted by Kueue, made into Jobs by JobSet, scheduled, run by kwok
and ended; the stored bytes of the JobSet, its Workload and its pods are kept at each stage, with all conditions and
managedFields that the controllers wrote.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import yaml

from tests.bench.etcd import Etcd, Pair
from tests.control_plane.api import Cluster
from tests.control_plane.rest import ApiError
from tests.stories import ROOT

NUMBER = b"run-0000-"
"""How every recorded name begins; another run's has other digits and is as long."""
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
MCJAX, PATHWAYS = "deepseek_ultrachat_mcjax", "deepseek_ultrachat"
HOSTS = 64
"""Of a slice of v6e-256."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One run at one stage."""

    stage: str
    pairs: tuple[Pair, ...]
    """JobSet and Workload, as JSON, then pods, as protobuf."""

    @property
    def pods(self) -> int:
        return sum(key.startswith(b"/registry/pods/") for key, _ in self.pairs)


def record(cluster: Cluster, namespace: str) -> tuple[Recorded, ...]:
    """`cluster` has 4 free slices of v6e-256 and all its controllers; `namespace` is empty, with a LocalQueue. Some
    20 s on an idle machine. The caller empties the namespace.
    """
    etcd = Etcd(cluster.layout.ports["etcd"])
    try:
        return tuple(_Stages(cluster, namespace, etcd).record())
    finally:
        etcd.close()


def goldens() -> tuple[str, ...]:
    """Return the names of the manifests that are sent."""
    return _golden(MCJAX), _golden(PATHWAYS)


def _golden(name: str) -> str:
    return (ROOT / "tests" / "golden" / f"{name}.manifest.yaml").read_text(encoding="utf-8")


@dataclass(frozen=True)
class _Stages:
    cluster: Cluster
    namespace: str
    etcd: Etcd

    def record(self) -> list[Recorded]:
        self._send(MCJAX, "mcjax")
        self._send(PATHWAYS, "pways")
        self._pods("mcjax", 2 * HOSTS)
        self._pods("pways", 2 * HOSTS + 1)
        self._send(MCJAX, "waits")
        self._send(MCJAX, "stuck", queue=self.cluster.create_queue(self.namespace, {"4xv6e-256": 1024}))
        self._stored("mcjax", "jobsets", lambda one: _ready(one) == 2)
        self._stored("pways", "jobsets", lambda one: _is(one, "StartupPolicyCompleted"))
        self._pods("stuck", 2, phase="Pending")
        self._waiting("waits")
        recordeds = [self._kept(name, stage) for name, stage in BEGUN.items()]
        self.cluster.api("DELETE", f"{JOBSETS.format(self.namespace)}/{_name('stuck')}")
        self.cluster.api("DELETE", f"{JOBSETS.format(self.namespace)}/{_name('waits')}")
        self.cluster.end(self.namespace, f"{OF}={_name('mcjax')}")
        self.cluster.end(self.namespace, f"{OF}={_name('pways')},{JOB}=pathways-head", code=1)
        self._stored("mcjax", "jobsets", lambda one: _is(one, "Completed"))
        self._stored("pways", "jobsets", lambda one: _is(one, "Failed"))
        for name in ENDED:
            self._stored(name, "workloads", lambda one: _is(one, "Finished"))
        self.cluster.delete_queue(self.namespace)
        plain = replace(_as_xpk_made(recordeds[0]), stage="plain")
        return [*recordeds, plain, *(self._kept(name, stage) for name, stage in ENDED.items())]

    def _send(self, golden: str, name: str, *, queue: str = "") -> None:
        manifest = yaml.safe_load(_golden(golden).replace(golden.replace("_", "-"), _name(name)))
        manifest["metadata"]["namespace"] = self.namespace
        if queue:
            manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
        self.cluster.api("POST", JOBSETS.format(self.namespace), manifest)

    def _pods(self, name: str, count: int, *, phase: str = "Running") -> None:
        self.cluster.wait_pods(self.namespace, f"{OF}={_name(name)}", count=count, phase=phase)

    def _waiting(self, name: str) -> None:
        self._stored(name, "workloads", lambda workload: _is(workload, "QuotaReserved", "False"))

    def _stored(self, name: str, kind: str, check: Any) -> None:
        """Until the JobSet, or its Workload, is so."""
        self.cluster.wait(
            lambda: any(check(kube_object) for kube_object in self._found(name, kind)), what=f"{kind} of {name}"
        )

    def _found(self, name: str, kind: str) -> list[Any]:
        path = {"jobsets": JOBSETS, "workloads": WORKLOADS}[kind].format(self.namespace)
        try:
            items = self.cluster.api("GET", path)["items"]
        except ApiError:
            return []
        return [kube_object for kube_object in items if _name(name) in kube_object["metadata"]["name"]]

    def _kept(self, name: str, stage: str) -> Recorded:
        prefixes = (
            f"/registry/jobset.x-k8s.io/jobsets/{self.namespace}/{_name(name)}",
            f"/registry/kueue.x-k8s.io/workloads/{self.namespace}/jobset-{_name(name)}",
            f"/registry/pods/{self.namespace}/{_name(name)}-",
        )
        return Recorded(stage=stage, pairs=tuple(pair for prefix in prefixes for pair in self.etcd.under(prefix)))


BEGUN = {"mcjax": "running", "pways": "running-pathways", "waits": "queued", "stuck": "unschedulable"}
ENDED = {"mcjax": "completed", "pways": "failed-pathways"}
"""Stages by the run that is in them."""
OF = "jobset.sigs.k8s.io/jobset-name"
JOB = "jobset.sigs.k8s.io/replicatedjob-name"


def _name(name: str) -> str:
    return NUMBER.decode() + name


def _is(kube_object: Any, kind: str, status: str = "True") -> bool:
    conditions = kube_object.get("status", {}).get("conditions", ())
    return any((condition["type"], condition["status"]) == (kind, status) for condition in conditions)


def _ready(jobset: Any) -> int:
    return sum(int(one["ready"]) for one in jobset.get("status", {}).get("replicatedJobsStatus", ()))


def _as_xpk_made(run: Recorded) -> Recorded:
    """Return the run's JobSet without what xsft adds, and with what `kubectl apply` does."""
    (key, value), *others = run.pairs
    jobset = json.loads(value)
    for part in ("labels", "annotations"):
        labels = jobset["metadata"][part]
        jobset["metadata"][part] = {k: v for k, v in labels.items() if "xsft" not in f"{k}={v}"}
    applied = json.dumps({"apiVersion": jobset["apiVersion"], "kind": "JobSet", "spec": jobset["spec"]})
    jobset["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = applied
    return replace(run, pairs=((key, json.dumps(jobset, separators=(",", ":")).encode()), *others))
