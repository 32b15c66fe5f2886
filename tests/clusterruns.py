"""Small runs on the real control plane: two slices of v6e-16, eight pods, so that a situation is staged in seconds."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.control_plane.api import Cluster as Real
from tests.control_plane.rest import MERGE
from tests.fakes.clusters import source_call
from tests.fakes.kuberuns import golden
from tests.observing import observe_run
from xsft.cluster.access import AccessSources
from xsft.cluster.cluster import Cluster, connect
from xsft.cluster.evidence import Evidence
from xsft.cluster.observation import Observation, Status
from xsft.machine import clock
from xsft.machine.objects import LocalObjects
from xsft.records.jobset_paths import OUTPUT_ANNOTATION
from xsft.records.record_files import RecordStore
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.cause_rule import Explanation
from xsft.runs.causes import explain_state
from xsft.runs.classify import classify
from xsft.runs.read_evidence import read_evidence
from xsft.runs.read_progress import ProgressSource, read_progress
from xsft.runs.read_runs import SourceCall
from xsft.runs.read_scope import may_have_progress

Json = dict[str, Any]
T = TypeVar("T")
HELD = "xsft.dev/test"
HOSTS = 4
FLAVOR = "2xv6e-16"
CHIPS = 32
"""Of two slices."""
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
STEP = "completed step: {n}, seconds: 0.500, TFLOP/s/device: 400.0, total_weights: 84, loss: 2.500, lm_loss: 0.000"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"


@dataclass
class Staged:
    """A namespace in which a test stages runs, and what xsft reads of it."""

    real: Real
    namespace: str
    cluster: Cluster = field(init=False)

    def __post_init__(self) -> None:
        env = {**os.environ, "KUBECONFIG": str(self.real.kubeconfig)}
        here = AccessSources(env=env, home=self.real.kubeconfig.parent)
        self.cluster = connect(ClusterAddress(context=self.real.context), here=here)

    def submit(
        self, name: str, *, mode: str = "mcjax", notes: dict[str, str] | None = None, held: bool = False, **how: Any
    ) -> Json:
        """Submit a run as xsft creates it. `notes`: annotations of all pods (tests/control_plane/stages.yaml). `held`:
        a deleted pod stays until `releases`.
        """
        body = manifest(name, self.namespace, mode=mode, **how)
        for job in body["spec"]["replicatedJobs"]:
            metadata = job["template"]["spec"]["template"].setdefault("metadata", {})
            metadata |= {"annotations": dict(notes or {}), "finalizers": [HELD] if held else []}
        json: Json = self.real.api("POST", JOBSETS.format(self.namespace), body)
        return json

    def queue(self, chips: int = CHIPS) -> str:
        """One of the namespace's own; `real.delete_queue` afterwards."""
        return self.real.create_queue(self.namespace, {FLAVOR: chips})

    def runs(self, name: str, count: int = 2 * HOSTS, *, restarts: int = 0) -> list[Json]:
        """Once all its pods of that start run; those of an earlier one are gone then, for a Job ends after its pods."""
        which = f"{selector(name)},jobset.sigs.k8s.io/restart-attempt={restarts}"
        return self.real.wait_pods(self.namespace, which, count=count)

    def releases(self, name: str) -> None:
        """Let the deleted pods go."""
        for pod in self.real.pods(self.namespace, selector(name)):
            meta = pod["metadata"]
            if "deletionTimestamp" in meta and HELD in meta.get("finalizers", ()):
                path = f"/api/v1/namespaces/{self.namespace}/pods/{meta['name']}"
                self.real.api("PATCH", path, {"metadata": {"finalizers": None}}, content=MERGE)

    def says(self, name: str, *lines: str, job: str = "slice-job", index: int = 0, host: int = 0, **how: Any) -> None:
        """`how`: as in tests/control_plane/podlogs.py."""
        self.real.write_logs(self.namespace, place(name, job, index, host), lines, **how)

    def ends(self, name: str, *, code: int = 0, **how: Any) -> None:
        """End all pods of the run, or the one at `index` and `host`."""
        where = selector(name)
        if "host" in how:
            where = place(name, how.pop("job", "slice-job"), how.pop("index", 0), how.pop("host"))
        self.real.end(self.namespace, where, code=code, **how)

    def patch_workload(self, name: str, body: Json) -> None:
        every = self.real.api("GET", WORKLOADS.format(self.namespace))["items"]
        (workload,) = [w for w in every if w["metadata"]["ownerReferences"][0]["name"] == name]
        path = f"{WORKLOADS.format(self.namespace)}/{workload['metadata']['name']}"
        self.real.api("PATCH", path, body, content=MERGE)

    def patch_queue(self, body: Json) -> None:
        self.real.api("PATCH", f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{self.namespace}", body, content=MERGE)

    def kills(self, node: str) -> None:
        """Report, as GKE's node problem detector does, that the kernel killed a process for memory."""
        text = f"{clock.now()[:19]}Z"
        about = {"kind": "Node", "apiVersion": "v1", "name": node, "uid": node}
        killing = {
            "type": "Warning",
            "reason": "OOMKilling",
            "message": "Memory cgroup out of memory: Killed process 7 (python3)",
        }
        event = {"metadata": {"generateName": f"{node}."}, "involvedObject": about, "lastTimestamp": text, **killing}
        self.real.api("POST", "/api/v1/namespaces/default/events", event)

    def cordon(self, topology: str, *, unschedulable: bool = True) -> None:
        """Cordon all nodes of that kind."""
        self.real.kubectl("cordon" if unschedulable else "uncordon", "-l", f"{TOPOLOGY}={topology}")

    def seen(self, name: str) -> tuple[Observation, ...]:
        return observe_run(self.cluster, namespace=self.namespace, name="real", run_name=name, now=clock.now())

    def asked(self) -> SourceCall:
        """Connect to the cluster."""
        return source_call(lambda: self.cluster, name="real", namespace=self.namespace)

    def read(self, name: str) -> tuple[Observation, Status]:
        """The newest attempt, with its progress."""
        store = RecordStore(state=Path("nowhere"), objects_at=lambda _: LocalObjects())
        source = ProgressSource(cluster=self.cluster, store=store)
        newest = self.seen(name)[:1]
        observation = read_progress(newest, source=source, deadline_s=20.0) if may_have_progress(newest[0]) else newest
        return observation[0], classify(observation[0])

    def until(self, name: str, *expected: tuple[str, str]) -> Observation:
        """Once its state and reason are one of these. Raises TimeoutError, with the last one that was."""
        last: list[Status] = []

        def there() -> Observation | None:
            observation, status = self.read(name)
            last[:] = [status]
            return observation if (status.state, status.reason) in expected else None

        try:
            return self.real.wait(there, what=f"{name} to be {expected}")  # type: ignore[return-value]
        except TimeoutError as late:
            raise AssertionError(f"{late}: it is {last}") from late

    def evidence(self, name: str) -> Evidence:
        observation, status = self.read(name)
        return read_evidence(self.cluster, seen=observation, status=status, attempts=self.seen(name))

    def explained(self, name: str, id: str) -> Explanation:
        """Once that is the cause: events come after the conditions that they are about."""
        last: list[Explanation] = []

        def there() -> Explanation | None:
            last[:] = [explain_state(self.evidence(name))]
            return last[0] if last[0].cause.id == id else None

        try:
            return self.wait(there, f"the cause to be {id}")  # type: ignore[return-value]
        except TimeoutError as late:
            raise AssertionError(f"{late}: it is {last}") from late

    def wait(self, check: Callable[[], T], what: str) -> T:
        return self.real.wait(check, what=what)


def selector(name: str) -> str:
    return f"jobset.sigs.k8s.io/jobset-name={name}"


def place(name: str, job: str, index: int, host: int) -> str:
    return (
        f"{selector(name)},jobset.sigs.k8s.io/replicatedjob-name={job},jobset.sigs.k8s.io/job-index={index},"
        f"batch.kubernetes.io/job-completion-index={host}"
    )


def manifest(
    name: str,
    namespace: str,
    *,
    mode: str = "mcjax",
    run: str | None = None,
    queue: str | None = None,
    priority: str | None = None,
    restarts: int | None = None,
    image: str | None = None,
    node: dict[str, str] | None = None,
    account: str | None = None,
    output: str | None = None,
) -> Json:
    """The golden one of the mode, made small; a pod ends in a second."""
    body = copy.deepcopy(golden(mode))
    labels = {"xsft.dev/run": run or name, "xsft.dev/jobset": name, "xpk.google.com/workload": name}
    body["metadata"] |= {"name": name, "namespace": namespace}
    if output is not None:
        body["metadata"]["annotations"][OUTPUT_ANNOTATION] = output
    body["metadata"]["labels"] |= labels | ({"kueue.x-k8s.io/queue-name": queue} if queue else {})
    if restarts is not None:
        body["spec"]["failurePolicy"]["maxRestarts"] = restarts
    for job in body["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        pod = spec["template"]["spec"]
        pod["terminationGracePeriodSeconds"] = 1
        if TOPOLOGY in pod["nodeSelector"]:
            spec |= {"parallelism": HOSTS, "completions": HOSTS}
            pod["nodeSelector"] |= {TOPOLOGY: "4x4", **(node or {})}
        if priority:
            pod["priorityClassName"] = priority
        if image is not None:
            pod["containers"][0]["image"] = image
        if account is not None:
            pod["serviceAccountName"] = account
    return body
