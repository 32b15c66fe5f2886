"""A cluster: what xsft reads from it, what it creates there (JobSets, Secrets and servers), and the one thing it
deletes: a JobSet that the user named, by its UID. Nothing here patches or replaces an object.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from xsft.base.amounts import before
from xsft.base.errors import XsftError
from xsft.base.lenient import JsonObject, mapping, rows, text
from xsft.base.problems import Problem
from xsft.cluster import dry_run
from xsft.cluster import resources as kinds
from xsft.cluster.access import AccessSources, access_for, this_machine
from xsft.cluster.api import METADATA_ONLY, Api, Patience
from xsft.cluster.errors import ApiRequest, not_installed
from xsft.cluster.exactly_once import (
    MANAGER,
    CreatedObject,
    DeleteOutcome,
    ExistingObject,
    create,
    delete,
    without_values,
)
from xsft.cluster.http import http_for
from xsft.cluster.reads import Reads, Servers
from xsft.cluster.resources import Resource
from xsft.machine.deadline import Deadline
from xsft.records.jobset_paths import FIRST_HOSTS, RUN_LABEL, TPU_NODE
from xsft.records.run_cluster import ClusterAddress

if TYPE_CHECKING:
    from xsft.spec.place import Place  # its models need pydantic


def connect(
    place: ClusterAddress | Place, *, here: AccessSources | None = None, patience: Patience | None = None
) -> Cluster:
    """Return the place's cluster. Sends no request yet. Raises as `access_for` and `http_for` do."""
    machine = here or this_machine()
    access = access_for(place, here=machine)
    limits = patience or Patience()
    http = http_for(access, env=machine.env, timeouts_s=(limits.connect_timeout_s, limits.read_timeout_s))
    return Cluster(Api(http, access=access, patience=limits))


class Cluster:
    """One cluster. Its methods raise, unless stated otherwise: Unreachable (no answer, login, permission; the id says
    which), EnvironmentMissing (JobSet or Kueue is not installed), SpecError (the cluster refuses the object; each cause
    is a problem).
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.access = api.access
        self.context = api.access.context
        self.reads = Reads(api)
        """The reads that show the state of runs."""
        self.servers = Servers(api)
        """The reads and creates of servers."""

    def by(self, deadline: Deadline) -> Cluster:
        """Return the same cluster, all of whose requests end at the deadline."""
        return Cluster(self._api.by(deadline))

    def time_there(self, now: str) -> str:
        """Return the time of the API server's clock at that time of this machine's, by the Date of its last answer."""
        ahead_s = self._api.http.ahead_s
        return before(now, -ahead_s) if ahead_s else now

    def create_jobset(self, manifest: JsonObject, *, mark: str | None = None) -> CreatedObject | ExistingObject:
        """Create the JobSet once. `mark` identifies this submission (random if not given). Raises Unknown if the create
        was sent, and neither its answer nor the object could be read afterwards.
        """
        return create(self._api, kinds.JOBSETS, manifest, mark=mark)

    def dry_run_jobset(self, manifest: JsonObject) -> JsonObject:
        """Return the object as the cluster would store it, after all its webhooks; the manifest itself if the name is
        taken (the cluster has still validated it).
        """
        return dry_run.stored_jobset(self._api, manifest)

    def dry_run_jobs(self, jobset: JsonObject) -> tuple[Problem, ...]:
        """Return what the cluster will refuse about the Jobs that JobSet creates from this one; empty if nothing."""
        return dry_run.job_problems(self._api, jobset)

    def dry_run_pods(self, jobset: JsonObject) -> tuple[Problem, ...]:
        """Return what the cluster will refuse or change about the first pod of each of these Jobs; empty if nothing."""
        return dry_run.pod_problems(self._api, jobset)

    def delete_jobset(self, *, name: str, namespace: str, uid: str) -> DeleteOutcome:
        """Delete the JobSet with that UID, its Jobs and its pods; no other of that name. Raises Unknown if the outcome
        could not be determined.
        """
        return delete(self._api, kinds.JOBSETS, name=name, namespace=namespace, uid=uid)

    def get_jobset(self, *, name: str, namespace: str) -> JsonObject | None:
        return self._api.get(kinds.JOBSETS, name=name, namespace=namespace)

    def list_jobsets(self, *, namespace: str, run_name: str | None = None) -> tuple[JsonObject, ...]:
        """Return all JobSets of a namespace, or those of one run (every attempt)."""
        selector = f"{RUN_LABEL}={run_name}" if run_name else ""
        return self._api.items(kinds.JOBSETS, namespace=namespace, selector=selector)

    def namespace(self, name: str) -> JsonObject | None:
        return self._api.get(kinds.NAMESPACES, name=name)

    def local_queue(self, *, name: str, namespace: str) -> JsonObject | None:
        return self._api.get(self._kueue("localqueues"), name=name, namespace=namespace)

    def local_queues(self, *, namespace: str) -> tuple[JsonObject, ...]:
        return self._api.items(self._kueue("localqueues"), namespace=namespace)

    def cluster_queue(self, name: str) -> JsonObject | None:
        return self._api.get(self._kueue("clusterqueues", namespaced=False), name=name)

    def resource_flavor(self, name: str) -> JsonObject | None:
        return self._api.get(self._kueue("resourceflavors", namespaced=False), name=name)

    def admission_check(self, name: str) -> JsonObject | None:
        return self._api.get(self._kueue("admissionchecks", namespaced=False), name=name)

    def priority_class(self, name: str) -> JsonObject | None:
        return self._api.get(kinds.PRIORITY_CLASSES, name=name)

    def priority_classes(self) -> tuple[JsonObject, ...]:
        return self._api.items(kinds.PRIORITY_CLASSES)

    def cpu_nodes(self) -> tuple[JsonObject, ...]:
        """Return all nodes that are not TPU hosts. source: GKE's node label cloud.google.com/gke-tpu-accelerator."""
        return self._api.items(kinds.NODES, selector=f"!{TPU_NODE}")

    def tpu_nodes(self) -> tuple[JsonObject, ...]:
        """Return all TPU hosts."""
        return self._api.items(kinds.NODES, selector=TPU_NODE)

    def nodes(self, *, selector: Mapping[str, str]) -> tuple[JsonObject, ...]:
        """Return the nodes that have these labels."""
        return self._api.items(kinds.NODES, selector=",".join(f"{key}={value}" for key, value in selector.items()))

    def first_pods_without_quota(self) -> tuple[JsonObject, ...]:
        """Return the first pod of each Job of every JobSet, less those that Kueue marks as started by it; its JobSet
        tells whether it has a queue. source: kueue@v0.16.2 pkg/constants/constants.go, PodSetLabel.
        """
        return self._api.items(kinds.PODS, selector=f"{FIRST_HOSTS},!kueue.x-k8s.io/podset")

    def service_account(self, *, name: str, namespace: str) -> JsonObject | None:
        return self._api.get(kinds.SERVICE_ACCOUNTS, name=name, namespace=namespace)

    def resource_quotas(self, *, namespace: str) -> tuple[JsonObject, ...]:
        return self._api.items(kinds.RESOURCE_QUOTAS, namespace=namespace)

    def cluster_queues(self) -> tuple[JsonObject, ...]:
        return self._api.items(self._kueue("clusterqueues", namespaced=False))

    def resource_flavors(self) -> tuple[JsonObject, ...]:
        return self._api.items(self._kueue("resourceflavors", namespaced=False))

    def deployment(self, *, name: str, namespace: str) -> JsonObject | None:
        return self._api.get(kinds.DEPLOYMENTS, name=name, namespace=namespace)

    def config_map(self, *, name: str, namespace: str) -> JsonObject | None:
        return self._api.get(kinds.CONFIG_MAPS, name=name, namespace=namespace)

    def kubernetes_version(self) -> str | None:
        """Return the API server's version, `v1.34.1`; None if it does not report one."""
        reply = self._api.question(ApiRequest(verb="get", resource=kinds.SERVER_VERSION))
        version = reply.body.get("gitVersion") if reply.ok else None
        return version if isinstance(version, str) else None

    def secret_exists(self, *, name: str, namespace: str) -> bool:
        """Return whether the Secret exists. Reads metadata only: no value leaves the cluster."""
        return self._api.get(kinds.SECRETS, name=name, namespace=namespace, accept=METADATA_ONLY) is not None

    def secret_keys(self, *, name: str, namespace: str) -> frozenset[str] | None:
        """Return the names of the Secret's keys, or None if there is no such Secret. Read from its managedFields; only
        if those are missing, from the object itself, whose values are dropped at once.
        """
        metadata = self._api.get(kinds.SECRETS, name=name, namespace=namespace, accept=METADATA_ONLY)
        if metadata is None:
            return None
        keys = _managed_keys(metadata)
        if keys:
            return keys
        secret = self._api.get(kinds.SECRETS, name=name, namespace=namespace)
        return None if secret is None else frozenset(mapping(secret, "data"))

    def create_secret(
        self, *, name: str, namespace: str, data: Mapping[str, bytes], mark: str | None = None
    ) -> CreatedObject | ExistingObject:
        """Create an opaque Secret. The object in the result has no data."""
        encoded = {key: base64.b64encode(value).decode("ascii") for key, value in data.items()}
        metadata = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/managed-by": MANAGER}}
        body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": encoded}
        try:
            outcome = create(self._api, kinds.SECRETS, body, mark=mark)
        except XsftError as failed:
            hidden = (*encoded.values(), *(value.decode("utf-8", "replace") for value in data.values()))
            raise without_values(failed, hidden) from None
        bare = {k: v for k, v in outcome.object.items() if k not in {"data", "stringData"}}
        return CreatedObject(object=bare) if isinstance(outcome, CreatedObject) else ExistingObject(object=bare)

    def whoami(self) -> str | None:
        """Return the user name by which the cluster knows this login; None if it does not report one (Kubernetes before
        1.28).
        """
        ask = ApiRequest(verb="create", resource=kinds.SELF_REVIEWS)
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        reply = self._api.question(ask, body=body)
        if reply.status == 401:
            raise self._api.failed(reply, ask)
        return text(mapping(reply.body, "status", "userInfo").get("username")) if reply.ok else None

    def may(self, verb: str, resource: Resource, *, namespace: str | None = None) -> bool | None:
        """Return whether this login has the permission; None if the cluster does not report it."""
        ask = ApiRequest(verb="create", resource=kinds.ACCESS_REVIEWS)
        attributes = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace or ""}
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        reply = self._api.question(ask, body={**kind, "spec": {"resourceAttributes": attributes}})
        if reply.status == 401:
            raise self._api.failed(reply, ask)
        return bool(mapping(reply.body, "status").get("allowed")) if reply.ok else None

    @cached_property
    def _kueue_version(self) -> str:
        """Return the version to use. The group's versions are listed under /apis/GROUP."""
        ask = ApiRequest(verb="get", resource=kinds.group_versions(kinds.KUEUE))
        reply = self._api.question(ask)
        if reply.status == 404:
            raise not_installed(ask.resource, self._api.access)
        if not reply.ok:
            raise self._api.failed(reply, ask)
        served = [str(v.get("version")) for v in rows(reply.body.get("versions"))]
        known = [version for version in kinds.KUEUE_VERSIONS if version in served]
        return known[0] if known else str(mapping(reply.body, "preferredVersion").get("version", "v1beta1"))

    def _kueue(self, plural: str, *, namespaced: bool = True) -> Resource:
        return kinds.kueue(plural, version=self._kueue_version, namespaced=namespaced)


def _managed_keys(metadata: JsonObject) -> frozenset[str]:
    """Return the keys of a Secret's data that have a field manager. source:
    kubernetes.io/docs/reference/using-api/server-side-apply, "Field management".
    """
    managers = rows(mapping(metadata, "metadata").get("managedFields"))
    fields = [mapping(manager, "fieldsV1", "f:data") for manager in managers]
    return frozenset(key.removeprefix("f:") for found in fields for key in found if key.startswith("f:"))
