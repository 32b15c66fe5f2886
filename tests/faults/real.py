"""A real control plane as a test's world: a namespace of its own, through the proxy that fails on demand.

Its queue stands behind a gate, an AdmissionCheck that nobody opens: Kueue keeps quota for a run and never starts it, so
that a test which needs no pods makes none. Tests that need them take the cluster's own queue.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from tests.control_plane.api import Cluster
from tests.control_plane.queues import CLUSTER_QUEUE, KUEUE, PRIORITIES, cluster_queue, local_queue
from tests.control_plane.rest import MERGE, ApiError
from tests.fakes.xpktools import Server
from tests.faults.proxy import Upstream
from tests.faults.world import Json
from xsft.spec.place import DEFAULT_QUEUE

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NEW_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
GATE = "xsft-gate"
FLAVOR = "4xv6e-256"
PLENTY = 1_000_000
"""Chips; runs of ended tests may still hold some."""


@dataclass
class RealWorld:
    cluster: Cluster
    namespace: str
    upstream: Upstream
    gated: bool = True
    undo: list[Callable[[], object]] = field(default_factory=list)
    """What a test changed for everybody."""

    @property
    def user(self) -> str:
        return self.upstream.impersonate or "admin"

    def jobsets(self) -> dict[str, Json]:
        jobset_list = self.cluster.api("GET", self._jobsets)["items"]
        by_age = sorted(jobset_list, key=lambda one: int(one["metadata"]["resourceVersion"]))
        by_age.sort(key=lambda one: one["metadata"]["creationTimestamp"])
        return {one["metadata"]["name"]: one for one in by_age}

    def secrets(self) -> dict[str, Json]:
        secret_list = self.cluster.api("GET", f"/api/v1/namespaces/{self.namespace}/secrets")["items"]
        return {condition_of_place["metadata"]["name"]: condition_of_place for condition_of_place in secret_list}

    def end(self, jobset: str, how: str) -> None:
        """End it as JobSet's controller writes it; that leaves an ended JobSet alone."""
        condition = {
            "type": how,
            "status": "True",
            "reason": {"Completed": "AllJobsCompleted", "Failed": "FailedJobs"}[how],
            "message": "a test ended it",
            "lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        }
        status = {"terminalState": how, "conditions": [condition]}
        self.cluster.api("PATCH", f"{self._jobsets}/{jobset}/status", {"status": status}, content=MERGE)

    def delete(self, jobset: str) -> None:
        path = f"{self._jobsets}/{jobset}"
        self.cluster.api("DELETE", f"{path}?propagationPolicy=Background")
        self.cluster.wait(lambda: self._gone(path), what=f"JobSet {jobset} to go")

    def add_jobset(self, name: str, *, labels: dict[str, str] | None = None) -> None:
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"replicatedJobs": [], "suspend": True},
        }
        self.cluster.api("POST", self._jobsets, body)

    def relabel(self, jobset: str, labels: dict[str, str]) -> None:
        self.cluster.api("PATCH", f"{self._jobsets}/{jobset}", {"metadata": {"labels": labels}}, content=MERGE)

    def unqueue(self, jobset: str) -> None:
        body = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}, "spec": {"suspend": True}}
        self.cluster.api("PATCH", f"{self._jobsets}/{jobset}", body, content=MERGE)

    def add_unmanaged_secret(self, name: str, data: dict[str, str]) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/secrets"
        self.cluster.api("POST", path, {"metadata": {"name": name}, "data": data})
        self.cluster.api("PATCH", f"{path}/{name}", {"metadata": {"managedFields": [{}]}}, content=MERGE)

    def limit_chips(self, chips: int) -> None:
        queue = cluster_queue(self.namespace, {FLAVOR: chips})
        self._once(f"{KUEUE}/clusterqueues", queue)
        self.undo.append(lambda: self.cluster.delete_queue(self.namespace))
        self.point_queue_to(self.namespace)

    def point_queue_to(self, cluster_queue: str) -> None:
        """A LocalQueue's ClusterQueue cannot be changed: it is made anew."""
        path, body = local_queue(self.namespace, cluster_queue=cluster_queue)
        self.cluster.api("DELETE", f"{path}/{DEFAULT_QUEUE}")
        self.cluster.wait(lambda: self._gone(f"{path}/{DEFAULT_QUEUE}"), what="the LocalQueue to go")
        self.cluster.api("POST", path, body)
        self.wait_for_queue()

    def remove_priority(self, name: str) -> None:
        self.cluster.api("DELETE", f"{CLASSES}/{name}")
        again = {"metadata": {"name": name}, "value": PRIORITIES[name]}
        self.undo.append(lambda: self.cluster.api("POST", CLASSES, again))

    def grant(self, rules: Sequence[Json]) -> None:
        """To a user of this test's, whom the proxy makes of us; returns when the server's RBAC knows."""
        user = f"nightly-{self.namespace}"
        self.cluster.api("POST", f"{RBAC}/clusterroles", {"metadata": {"name": user}, "rules": list(rules)})
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "ClusterRole", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": user}, "subjects": [subject], "roleRef": role}
        self.cluster.api("POST", f"{RBAC}/clusterrolebindings", binding)
        for kind in ("clusterrolebindings", "clusterroles"):
            self.undo.append(partial(self.cluster.api, "DELETE", f"{RBAC}/{kind}/{user}"))
        general = [rule for rule in rules if "resourceNames" not in rule]  # RBAC knows all rules of a role at once
        self.cluster.wait(lambda: all(self._may(user, rule) for rule in general), what=f"the rights of {user}")
        self.upstream.impersonate = user

    def wait_for_queue(self) -> None:
        path = f"{NEW_KUEUE}/namespaces/{self.namespace}/localqueues/{DEFAULT_QUEUE}"
        self.cluster.wait(lambda: _active(self.cluster.api("GET", path)), what="the LocalQueue to be Active")

    def close(self) -> None:
        """Delete what runs: other tests need its nodes and quota. What stood behind the gate used neither and
        ends with the cluster: to delete a namespace costs the server a hundred requests. Servers stand behind no gate.
        """
        for undo in reversed(self.undo):
            undo()
        if not self.gated:
            self.cluster.empty_namespace(self.namespace)
            return
        servers = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        self.cluster.api("DELETE", f"{servers}?propagationPolicy=Background&gracePeriodSeconds=0")

    @property
    def _jobsets(self) -> str:
        return JOBSETS.format(self.namespace)

    def _may(self, user: str, rule: Json) -> bool:
        attributes = {
            "verb": rule["verbs"][0],
            "group": rule["apiGroups"][0],
            "resource": rule["resources"][0],
            "namespace": self.namespace,
        }
        body = {"spec": {"user": user, "resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self.cluster.api("POST", path, body)["status"]["allowed"])

    def _gone(self, path: str) -> bool:
        try:
            self.cluster.api("GET", path)
        except ApiError as failed:
            return failed.status == 404
        return False

    def _once(self, path: str, body: Json) -> None:
        create_once(self.cluster, path, body)


@contextmanager
def namespace_of(cluster: Cluster, upstream: Upstream, *, of: str, gated: bool = True) -> Iterator[RealWorld]:
    """A namespace with a queue, for the test `of`; `gated`: nothing starts in it.

    Its name is the same in every session: xpk's line has it, and what xpk rendered of a line is kept.
    """
    world = RealWorld(cluster, f"t{hashlib.sha256(of.encode()).hexdigest()[:10]}", upstream, gated=gated)
    cluster.api("POST", "/api/v1/namespaces", {"metadata": {"name": world.namespace}})
    try:
        if gated:
            _gate(cluster)
        cluster.api("POST", *local_queue(world.namespace, cluster_queue=GATE if gated else CLUSTER_QUEUE))
        world.wait_for_queue()
        yield world
    finally:
        world.close()


def gated_default(cluster: Cluster) -> RealWorld:
    """The namespace that xpk takes, its queue behind the gate from now on. For a cluster of one's own."""
    world = RealWorld(cluster, "default", Upstream(server=cluster.server, ca=cluster.ca))
    _gate(cluster)
    world.point_queue_to(GATE)
    return world


def _gate(cluster: Cluster) -> None:
    """Made by the first test that needs it, and left to the cluster."""
    path = f"{NEW_KUEUE}/admissionchecks"
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    check = {"kind": "AdmissionCheck", "metadata": {"name": GATE}, "spec": {"controllerName": "xsft.dev/nobody"}}
    if not create_once(cluster, path, {**version, **check}):
        return
    ready = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "a test's",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }
    cluster.api("PATCH", f"{path}/{GATE}/status", {"status": {"conditions": [ready]}}, content=MERGE)
    queue = cluster_queue(GATE, {FLAVOR: PLENTY})
    heads = queue["spec"]["resourceGroups"][1]["flavors"][0]["resources"]
    heads[:] = [{"name": head["name"], "nominalQuota": "1P"} for head in heads]
    queue["spec"]["admissionChecks"] = [GATE]
    create_once(cluster, f"{KUEUE}/clusterqueues", queue)


def serving_xpk(cluster: Cluster, *, name: str = "my-cluster") -> Server:
    """The server itself, with what `xpk cluster create` leaves of v6e-256 there. Not the proxy: kubectl shows its token
    to nobody over plain HTTP.
    """
    maps = {"resources": {"v6e-256": "128"}, "metadata": {"xpk_version": "v1.16.0"}}
    for what, data in maps.items():
        body = {"metadata": {"name": f"{name}-{what}-configmap"}, "data": data}
        create_once(cluster, "/api/v1/namespaces/default/configmaps", body)
    kubectl = cluster.layout.tools.program("kubectl")
    return Server(url=cluster.server, token=cluster.token, ca=cluster.ca, kubectl=kubectl)


def create_once(cluster: Cluster, path: str, body: Json) -> bool:
    """Create the object, and return whether it was new."""
    try:
        cluster.api("POST", path, body)
    except ApiError as failed:
        if failed.status != 409:
            raise
        return False
    return True


def _active(queue: Json) -> bool:
    conditions = queue.get("status", {}).get("conditions", ())
    return any(request["type"] == "Active" and request["status"] == "True" for request in conditions)


def decoded(secret: Json) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}
