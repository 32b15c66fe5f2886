"""Reads a cluster before anything is created on it, and the rights of the service account that a run's pods use.

source: REST references of IAM (projects.serviceAccounts.getIamPolicy), of Service Account Credentials
(projects.serviceAccounts.generateAccessToken), of Cloud Storage (buckets.testIamPermissions) and of Compute Engine
(instances.get: the account of a node and its access scopes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from google.auth.exceptions import GoogleAuthError
from google.oauth2.credentials import Credentials
from msgspec.structs import replace
from requests import RequestException

from xsft.base.errors import Forbidden, SpecError
from xsft.base.lenient import JsonObject, object_name
from xsft.base.problems import Problem, errors_in
from xsft.checks.admission import ClusterFacts, UnreadFact, admission_problems, listed, read_nodes
from xsft.checks.controllers import CONTROLLERS, KUEUE_CONFIG, ready_timeout_s
from xsft.checks.demand import Demand, demand_of
from xsft.checks.pod_identity import PodRights, is_bound, member_of, rights_source
from xsft.cluster.cluster import Cluster
from xsft.cluster.jobset_fields import parse_jobset
from xsft.cluster.objects import ClusterQueue, LocalQueue, ObjectMetadata
from xsft.cluster.supply import Node
from xsft.machine.google_login import SCOPE, google_credentials, google_session
from xsft.machine.parallel import all_answers, start
from xsft.machine.paths import may_log_in
from xsft.machine.writable import DELETE_PERMISSION, OBJECT_PERMISSIONS
from xsft.planning.steps import Planned

T = TypeVar("T")
P = ParamSpec("P")
TIMEOUT_S = 5.0
LIFETIME_S = 300
WRITING = frozenset({"cloud-platform", "devstorage.read_write", "devstorage.full_control"})
"""Access scopes with which a machine may write to Cloud Storage."""
OF_BUCKET = (*OBJECT_PERMISSIONS, DELETE_PERMISSION)


def unless_forbidden(look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | UnreadFact:
    """Return what `look` answers, or why it may not be read. Raises as `look` does for every other failure."""
    try:
        return look(*args, **kwargs)
    except Forbidden as failed:
        return UnreadFact(why=failed.clause)


RightsOf = Callable[[str, Demand], PodRights | None]
"""Function that returns the rights of an account, given as `rights_source` does; None if it cannot read them."""


def examine(
    cluster: Cluster, plan: Planned, *, rights: RightsOf = lambda _source, _demand: None
) -> tuple[ClusterFacts, tuple[Problem, ...]]:
    """Return the cluster's facts, and the problems that prevent the plan. Creates nothing. `rights`: asks
    for the rights of the account that the pods use.

    Raises as `Cluster` does, except for what may not be read: that is a problem in the result.
    """
    demand = demand_of(manifest_of(plan), plan.run)
    facts = inspect(cluster, demand)
    nodes = read_nodes(facts)
    if isinstance(facts.service_account, dict) and (source := rights_source(facts.service_account, nodes, demand)):
        facts = replace(facts, rights=rights(source, demand))
    return facts, admission_problems(facts, demand)


def manifest_of(plan: Planned) -> JsonObject:
    """Return the plan's manifest. Raises SpecError if it has none."""
    if plan.manifest is None:
        raise SpecError(errors_in(plan.problems))
    return plan.manifest


def inspect(cluster: Cluster, demand: Demand) -> ClusterFacts:
    """Return what the cluster holds for the demand. The reads run in parallel; one that needs another's result waits
    for it. Raises as `Cluster` does.
    """
    namespace = demand.namespace
    local_queue = start(lambda: unless_forbidden(cluster.local_queue, name=demand.queue, namespace=namespace))
    queue = start(lambda: _cluster_queue(cluster, local_queue.result()))
    classes = start(lambda: _each(cluster.priority_class, demand.priority_classes))
    selected = start(lambda: _selected_nodes(cluster, demand, queue.result()) if demand.asks_chips else {})
    looks: dict[str, Callable[[], Any]] = {
        "namespace": lambda: unless_forbidden(cluster.namespace, namespace),
        "local_queue": local_queue.result,
        "known_queues": lambda: (
            tuple(queue.name for queue in listed(unless_forbidden(cluster.local_queues, namespace=namespace)))
            if local_queue.result() is None
            else ()
        ),
        "cluster_queue": queue.result,
        "flavors": lambda: _readable(_each(cluster.resource_flavor, _if_read(queue.result()).flavors)),
        "admission_checks": lambda: _readable(_each(cluster.admission_check, _if_read(queue.result()).required_checks)),
        "priority_classes": classes.result,
        "known_priorities": lambda: (
            tuple(map(object_name, listed(unless_forbidden(cluster.priority_classes))))
            if None in classes.result().values()
            else ()
        ),
        "secrets": lambda: _each(
            lambda name: cluster.secret_keys(name=name, namespace=namespace), [need.name for need in demand.secrets]
        ),
        "nodes": lambda: None if demand.asks_chips else unless_forbidden(cluster.cpu_nodes),
        "selected": selected.result,
        "occupied": lambda: _occupied_nodes(cluster, selected.result()),
        "controllers": lambda: _readable(_each(lambda name: _deployment(cluster, name), CONTROLLERS)),
        "ready_timeout_s": lambda: _ready_timeout_s(cluster),
        "service_account": lambda: (
            unless_forbidden(cluster.service_account, name=demand.service_account, namespace=namespace)
            if demand.buckets
            else None
        ),
        # none of them if they may not be read: the dry run of the pods says more.
        "resource_quotas": lambda: listed(unless_forbidden(cluster.resource_quotas, namespace=namespace)),
        "jobsets": lambda: cluster.list_jobsets(namespace=namespace, run_name=demand.run_name),
        "same_name": lambda: cluster.get_jobset(name=demand.jobset, namespace=namespace),
    }
    answers = all_answers(tuple(looks.values()), threads=len(looks))
    return ClusterFacts(context=cluster.context, **dict(zip(looks, answers, strict=True)))


def _each(look: Callable[[str], T], names: Iterable[str]) -> dict[str, T | UnreadFact]:
    return {name: unless_forbidden(look, name) for name in names}


def _readable(objects: Mapping[str, T | UnreadFact | None]) -> dict[str, T]:
    """Return the objects that exist and may be read."""
    return {name: found for name, found in objects.items() if found is not None and not isinstance(found, UnreadFact)}


def _cluster_queue(cluster: Cluster, queue: LocalQueue | UnreadFact | None) -> ClusterQueue | UnreadFact | None:
    if queue is None or isinstance(queue, UnreadFact):
        return queue
    return unless_forbidden(cluster.cluster_queue, str(queue.spec.cluster_queue))


def _if_read(queue: ClusterQueue | UnreadFact | None) -> ClusterQueue:
    """Return the queue; an empty one if there is none, or it could not be read."""
    return queue if isinstance(queue, ClusterQueue) else ClusterQueue(metadata=ObjectMetadata(name=""))


def _selected_nodes(
    cluster: Cluster, demand: Demand, queue: ClusterQueue | UnreadFact | None
) -> dict[str, tuple[Node, ...] | UnreadFact]:
    """Return the nodes of each pod set; of none if an admission check of the queue adds nodes before a run starts.
    source: Kueue's ProvisioningRequest admission check.
    """
    if _if_read(queue).required_checks:
        return {}
    selectors = {pods.name: pods.node_selector.items() for pods in demand.pod_sets}
    return {
        name: unless_forbidden(cluster.nodes, ",".join(f"{key}={label}" for key, label in selector))
        for name, selector in selectors.items()
    }


def _occupied_nodes(
    cluster: Cluster, selected: Mapping[str, tuple[Node, ...] | UnreadFact]
) -> dict[str, str] | UnreadFact:
    """Return the JobSets without a queue that run on these nodes; without those that may not be read."""
    names = {node.name for nodes in selected.values() if isinstance(nodes, tuple) for node in nodes}
    pods = unless_forbidden(cluster.first_pods_without_quota) if names else ()
    if isinstance(pods, UnreadFact):
        return pods
    running: dict[str, tuple[str, str]] = {}
    for pod in pods:
        if pod.spec.node_name in names and pod.status.phase == "Running":
            running[str(pod.spec.node_name)] = (pod.namespace, pod.jobset)
    without_queue: set[tuple[str, str]] = set()
    for namespace, name in set(running.values()):
        jobset = unless_forbidden(cluster.get_jobset, namespace=namespace, name=name)
        if isinstance(jobset, dict) and parse_jobset(jobset).queue is None:
            without_queue.add((namespace, name))
    return {node: "/".join(owner) for node, owner in running.items() if owner in without_queue}


def _deployment(cluster: Cluster, controller: str) -> JsonObject | None:
    where = CONTROLLERS[controller]
    return cluster.deployment(name=where.deployment, namespace=where.namespace)


def _ready_timeout_s(cluster: Cluster) -> float | None:
    """Return the timeout of Kueue's waitForPodsReady; None if it has none, or its configuration may not be read."""
    config = unless_forbidden(cluster.config_map, name=KUEUE_CONFIG, namespace=CONTROLLERS["Kueue"].namespace)
    if not isinstance(config, dict):
        return None
    return ready_timeout_s(config)


@dataclass(frozen=True, kw_only=True)
class GoogleIam:
    """The APIs that know a service account's rights, asked with the user's login, without Google's clients
    (0.4 CPU-s each to import).
    """

    session: Any = field(repr=False)
    iam: str = "https://iam.googleapis.com"
    credentials: str = "https://iamcredentials.googleapis.com"
    storage: str = "https://storage.googleapis.com"
    compute: str = "https://compute.googleapis.com"

    def rights(self, source: str, demand: Demand) -> PodRights:
        """Return the rights, as far as this login may read them. No token is made: that would be an impersonation in
        an audit log. `source`: an email, or `gce://project/zone/machine` of a node.
        """
        if source.startswith("gce://"):
            return self._of_node(source)
        policy = self._ask_google("POST", f"{self.iam}/v1/projects/-/serviceAccounts/{source}:getIamPolicy", json={})
        if policy is None:
            return PodRights(email=source)
        return PodRights(email=source, bound=is_bound(policy, member_of(demand)))

    def lacking_permissions(self, email: str, bucket: str) -> tuple[str, ...] | None:
        """Return what the account lacks on the bucket, tested with a token of that account; None if this login may not
        make one.
        """
        # An access token of the account, valid for five minutes.
        path = f"{self.credentials}/v1/projects/-/serviceAccounts/{email}:generateAccessToken"
        issued = self._ask_google("POST", path, json={"scope": [SCOPE], "lifetime": f"{LIFETIME_S}s"})
        if not issued or "accessToken" not in issued:
            return None
        path = f"{self.storage}/storage/v1/b/{bucket}/iam/testPermissions"
        session = google_session(Credentials(token=str(issued["accessToken"])))  # type: ignore[no-untyped-call]
        answer = self._ask_google("GET", path, session=session, params={"permissions": OF_BUCKET})
        if answer is None:
            return None
        return tuple(name for name in OF_BUCKET if name not in (answer.get("permissions") or ()))

    def _of_node(self, source: str) -> PodRights:
        """Return the account of a machine, and whether its access scopes allow writing."""
        project, _, within = source.removeprefix("gce://").partition("/")
        zone, _, name = within.partition("/")
        path = f"{self.compute}/compute/v1/projects/{project}/zones/{zone}/instances/{name}"
        answer = self._ask_google("GET", path, params={"fields": "serviceAccounts"}) or {}
        for account in answer.get("serviceAccounts") or ():
            scopes = {str(scope).rpartition("/")[2] for scope in account.get("scopes") or ()}
            return PodRights(email=str(account["email"]), writes=not scopes or bool(scopes & WRITING))
        return PodRights()

    def _ask_google(self, method: str, url: str, *, session: Any = None, **options: Any) -> dict[str, Any] | None:
        """Return the answer; None on any failure, because this check must never stop a run."""
        try:
            answer = (session or self.session).request(method, url, timeout=TIMEOUT_S, **options)
            document = answer.json() if answer.status_code == 200 else None
        except (GoogleAuthError, RequestException, ValueError):
            return None
        if not isinstance(document, dict):
            return None
        return document


def connect_iam(env: Mapping[str, str]) -> GoogleIam | None:
    """Connect with the Application Default Credentials; None without a login."""
    if not may_log_in(env):
        return None
    try:
        return GoogleIam(session=google_session(google_credentials()))
    except (GoogleAuthError, OSError):
        return None
