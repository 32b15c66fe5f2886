"""A cluster: what xsft reads from it, what it creates there (JobSets, Secrets and servers), and the one thing it
deletes: a JobSet that the user named, by its UID. Nothing here patches or replaces an object.

The cluster also validates a JobSet, the Jobs that JobSet makes of it, and the first pod of each, without storing any.
JobSet's admission checks little of a Job, and a Job's checks nothing of what the namespace allows its pods: a missing
ServiceAccount or a PodSecurity level is found only when pods are created, while the run holds its quota.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from xsft.base.amounts import before
from xsft.base.errors import SpecError, XsftError
from xsft.base.lenient import JsonObject, mapping, rows, text
from xsft.base.problems import Problem
from xsft.cluster import resources as kinds
from xsft.cluster.access import AccessSources, access_for, this_machine
from xsft.cluster.answers import Reply, read_named
from xsft.cluster.api import METADATA_ONLY, Api, Patience
from xsft.cluster.dry_run_problems import (
    child_jobs,
    first_pods,
    jobless,
    jobs_not_checked,
    limited_problems,
    makes_no_job,
    pods_not_checked,
    refused_pod,
)
from xsft.cluster.errors import ApiRequest, invalid, not_installed
from xsft.cluster.exactly_once import (
    DRY_RUN,
    MANAGER,
    CreatedObject,
    DeleteOutcome,
    ExistingObject,
    create,
    delete,
    without_values,
)
from xsft.cluster.http import http_for
from xsft.cluster.objects import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, ClusterQueue, LocalQueue, ResourceFlavor
from xsft.cluster.pod_fields import POD, Pod
from xsft.cluster.reads import Reads, Servers
from xsft.cluster.resources import Resource
from xsft.cluster.supply import NODE, Node
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
        reply, ask = self._dry_run(kinds.JOBSETS, manifest)
        if reply.status == 409:
            return manifest
        if not reply.ok:
            raise self._api.failed(reply, ask)
        return dict(reply.body)

    def dry_run_jobs(self, jobset: JsonObject) -> tuple[Problem, ...]:
        """Return what the cluster will refuse about the Jobs that JobSet creates from this one; empty if nothing."""
        problems = list(map(makes_no_job, jobless(jobset)))
        for job in child_jobs(jobset):
            reply, ask = self._dry_run(kinds.JOBS, job)
            if reply.ok or reply.status == 409:
                continue  # a Job whose name is taken is validated before its name is
            if reply.status == 403 and not reply.by_admission:
                problems.append(jobs_not_checked(ask.what, reply.message))
            else:
                problems += self._refusal_problems(reply, ask)
        return tuple(problems)

    def dry_run_pods(self, jobset: JsonObject) -> tuple[Problem, ...]:
        """Return what the cluster will refuse or change about the first pod of each of these Jobs; empty if nothing."""
        problems = (problem for pod in first_pods(jobset) for problem in self._pod_problems(pod))
        return tuple(dict.fromkeys(problems))

    def _pod_problems(self, pod: JsonObject) -> Iterator[Problem]:
        reply, ask = self._dry_run(kinds.PODS, pod)
        if reply.ok:
            yield from limited_problems(sent=pod, stored=reply.body, context=self.context)
        elif reply.status == 403 and not reply.by_admission:
            yield pods_not_checked(reply.message)
        elif reply.status == 403 and (problem := refused_pod(reply.message, pod, context=self.context)):
            yield problem
        elif reply.status != 409:
            yield from self._refusal_problems(reply, ask)

    def _dry_run(self, resource: Resource, body: JsonObject) -> tuple[Reply, ApiRequest]:
        """Send a dry run. It stores nothing, so it may be repeated like a query."""
        metadata = body["metadata"]
        ask = ApiRequest(verb="create", resource=resource, namespace=metadata.get("namespace"), name=metadata["name"])
        query = {**DRY_RUN, "fieldManager": MANAGER}
        return self._api.question(ask, query=query, body=body, read=read_named), ask

    def _refusal_problems(self, reply: Reply, ask: ApiRequest) -> tuple[Problem, ...]:
        if reply.status in (400, 422):
            return tuple(invalid(reply, ask))
        failed = self._api.failed(reply, ask)
        if isinstance(failed, SpecError):
            return failed.problems
        raise failed

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

    def local_queue(self, *, name: str, namespace: str) -> LocalQueue | None:
        return self._api.typed(self._kueue("localqueues"), LOCAL_QUEUE, name=name, namespace=namespace)

    def local_queues(self, *, namespace: str) -> tuple[LocalQueue, ...]:
        """Return all of a namespace. Here and below, an object that Kubernetes would not accept is left out."""
        return self._api.listed(self._kueue("localqueues"), LOCAL_QUEUE, namespace=namespace).objects

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        return self._api.typed(self._kueue("clusterqueues", namespaced=False), CLUSTER_QUEUE, name=name)

    def cluster_queues(self) -> tuple[ClusterQueue, ...]:
        return self._api.listed(self._kueue("clusterqueues", namespaced=False), CLUSTER_QUEUE).objects

    def resource_flavor(self, name: str) -> ResourceFlavor | None:
        return self._api.typed(self._kueue("resourceflavors", namespaced=False), RESOURCE_FLAVOR, name=name)

    def resource_flavors(self) -> tuple[ResourceFlavor, ...]:
        return self._api.listed(self._kueue("resourceflavors", namespaced=False), RESOURCE_FLAVOR).objects

    def admission_check(self, name: str) -> JsonObject | None:
        return self._api.get(self._kueue("admissionchecks", namespaced=False), name=name)

    def priority_class(self, name: str) -> JsonObject | None:
        return self._api.get(kinds.PRIORITY_CLASSES, name=name)

    def priority_classes(self) -> tuple[JsonObject, ...]:
        return self._api.items(kinds.PRIORITY_CLASSES)

    def cpu_nodes(self) -> tuple[Node, ...]:
        """Return all nodes that are not TPU hosts. source: GKE's node label cloud.google.com/gke-tpu-accelerator."""
        return self.nodes(f"!{TPU_NODE}")

    def tpu_nodes(self) -> tuple[Node, ...]:
        """Return all TPU hosts."""
        return self.nodes(TPU_NODE)

    def nodes(self, selector: str) -> tuple[Node, ...]:
        return self._api.listed(kinds.NODES, NODE, query={"labelSelector": selector}).objects

    def first_pods_without_quota(self) -> tuple[Pod, ...]:
        """Return the first pod of each Job of every JobSet, less those that Kueue marks as started by it; its JobSet
        tells whether it has a queue. source: kueue@v0.16.2 pkg/constants/constants.go, PodSetLabel.
        """
        query = {"labelSelector": f"{FIRST_HOSTS},!kueue.x-k8s.io/podset"}
        return self._api.listed(kinds.PODS, POD, query=query).objects

    def service_account(self, *, name: str, namespace: str) -> JsonObject | None:
        return self._api.get(kinds.SERVICE_ACCOUNTS, name=name, namespace=namespace)

    def resource_quotas(self, *, namespace: str) -> tuple[JsonObject, ...]:
        return self._api.items(kinds.RESOURCE_QUOTAS, namespace=namespace)

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
        # source: kubernetes.io/docs/reference/using-api/server-side-apply, "Field management"
        managers = rows(mapping(metadata, "metadata").get("managedFields"))
        fields = [field for manager in managers for field in mapping(manager, "fieldsV1", "f:data")]
        keys = frozenset(field.removeprefix("f:") for field in fields if field.startswith("f:"))
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
        served = [str(version.get("version")) for version in rows(reply.body.get("versions"))]
        for version in kinds.KUEUE_VERSIONS:
            if version in served:
                return version
        # a Kueue newer than all that xsft knows: its own choice has the best chance
        return str(mapping(reply.body, "preferredVersion").get("version", "v1beta1"))

    def _kueue(self, plural: str, *, namespaced: bool = True) -> Resource:
        return kinds.kueue(plural, version=self._kueue_version, namespaced=namespaced)
