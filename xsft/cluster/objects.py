"""Objects of Kubernetes as an API server writes them, and Kueue's. Pure.

Unknown fields are ignored, and absent ones have their defaults; Go writes null for some of these. The other
kinds are in the modules that read them, and `answers` decodes each object of a list by itself. Both served versions of
Kueue (v1beta1, v1beta2) have these fields under the same names. source: kueue@v0.16.1
apis/kueue/{v1beta1,v1beta2}/workload_types.go, apis/visibility/v1beta2/types.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct, ValidationError, convert, field
from msgspec.json import Decoder

from xsft.base.errors import Unreachable
from xsft.base.lenient import JsonObject, count

T = TypeVar("T")


class KubernetesStruct(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object. Its fields have the names of the API, in snake case."""


class Condition(Struct, frozen=True, kw_only=True, rename={"at": "lastTransitionTime"}):
    """One condition of any object. A state depends on type, status and reason; only `why` quotes the message."""

    type: str = ""
    status: str = "Unknown"
    """True | False | Unknown, as Kubernetes spells them."""
    reason: str = ""
    message: str = ""
    at: str = ""
    """lastTransitionTime; UTC, ISO 8601."""


def true_condition(conditions: Iterable[Condition], type: str) -> Condition | None:
    """Return the True condition of that type; if there are several, always the same one."""
    matching = (c for c in conditions if c.type == type and c.status == "True")
    return min(matching, key=lambda c: (c.reason, c.at), default=None)


class Owner(KubernetesStruct, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class ObjectMetadata(KubernetesStruct, frozen=True, kw_only=True):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[Owner, ...] = ()

    @property
    def jobset_owner(self) -> Owner:
        """Return the JobSet among its owners, which Kueue makes the controller; empty without one."""
        return next((owner for owner in self.owner_references if owner.kind == "JobSet"), Owner())


class KubernetesObject(KubernetesStruct, frozen=True, kw_only=True):
    metadata: ObjectMetadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid


class Resources(KubernetesStruct, frozen=True, kw_only=True):
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}


class ContainerSpec(KubernetesStruct, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    resources: Resources = Resources()


class PodSpec(KubernetesStruct, frozen=True, kw_only=True):
    containers: tuple[ContainerSpec, ...] = ()
    node_selector: dict[str, str] = {}
    node_name: str | None = None


class PodTemplate(KubernetesStruct, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()


class JobSpec(KubernetesStruct, frozen=True, kw_only=True):
    """The spec of a Job, and of a Deployment."""

    template: PodTemplate = PodTemplate()


class ConditionsStatus(KubernetesStruct, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class BadObject(Struct, frozen=True, kw_only=True):
    """An object of another shape than its kind has."""

    name: str
    why: str
    """One clause: the first field that differs."""


class ObjectList(Struct, Generic[T], frozen=True, kw_only=True):
    objects: tuple[T, ...] = ()
    bad: tuple[BadObject, ...] = ()


def typed(json: JsonObject | list[JsonObject], kind: Decoder[T]) -> T:
    """Return the object of parsed JSON. Raises Unreachable if it has another shape."""
    try:
        return convert(without_nulls(json), kind.type)
    except ValidationError as odd:
        message = f"The cluster has an object of another shape than its kind ({odd})."
        raise Unreachable(message, fix="Look at it with kubectl.", id="not-served", again="unsure") from None


def without_nulls(value: Any) -> Any:
    """Return the JSON without nulls: Go reads them as no value."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value if inner is not None]
    return value


JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""Label of a Workload with the UID of its JobSet. source: kueue@v0.16.2 pkg/controller/constants/constants.go"""


class Quota(Struct, frozen=True, kw_only=True):
    """The quota of one resource of one flavor in the ClusterQueue; numbers as Kubernetes writes them."""

    flavor: str
    resource: str
    total: str
    used: str


class PodSetAssignment(KubernetesStruct, frozen=True, kw_only=True):
    flavors: dict[str, str] = field(default_factory=dict)
    resource_usage: dict[str, Any] = field(default_factory=dict)


class WorkloadPods(KubernetesStruct, frozen=True, kw_only=True):
    count: int = 0
    template: PodTemplate = PodTemplate()


class QuotaAdmission(KubernetesStruct, frozen=True, kw_only=True):
    cluster_queue: str | None = None
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class EvictionCount(KubernetesStruct, frozen=True, kw_only=True):
    count: int = 0


class SchedulingStats(KubernetesStruct, frozen=True, kw_only=True):
    evictions: tuple[EvictionCount, ...] = ()


class KueueSpec(KubernetesStruct, frozen=True, kw_only=True):
    queue_name: str | None = None
    priority: int | None = None
    active: bool = True
    """A deactivated Workload is never admitted again automatically."""
    pod_sets: tuple[WorkloadPods, ...] = ()


class KueueStatus(ConditionsStatus, frozen=True, kw_only=True):
    admission: QuotaAdmission = QuotaAdmission()
    scheduling_stats: SchedulingStats = SchedulingStats()


class Workload(KubernetesObject, frozen=True, kw_only=True):
    spec: KueueSpec = KueueSpec()
    status: KueueStatus = KueueStatus()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return self.status.conditions

    @property
    def owner(self) -> Owner:
        """Return the JobSet that owns it; empty without one."""
        return self.metadata.jobset_owner

    @property
    def waits(self) -> bool:
        """Return whether it is pending: its conditions show no quota and no end."""
        return self.spec.active and not self._is_true("QuotaReserved") and not self._is_true("Finished")

    @property
    def cluster_queue(self) -> str | None:
        """Return the ClusterQueue in which it has quota; None if it has none."""
        return self.admission.cluster_queue

    @property
    def evictions(self) -> int:
        return sum(eviction.count for eviction in self.status.scheduling_stats.evictions)

    @property
    def holds(self) -> str:
        """Return the accelerators that it holds, `512 google.com/tpu`; other quantities (cpu in milli, memory with
        units) are not accelerators.
        """
        used: dict[str, int] = defaultdict(int)
        for pod_set in self.admission.pod_set_assignments:
            for resource, amount in pod_set.resource_usage.items():
                used[resource] += count(amount)
        return ", ".join(f"{amount} {name}" for name, amount in sorted(used.items()) if amount and "/" in name)

    @property
    def admission(self) -> QuotaAdmission:
        """Return the quota that it has now."""
        reserved = self._is_true("QuotaReserved") and not self._is_true("Finished")
        return self.status.admission if reserved else QuotaAdmission()

    def _is_true(self, kind: str) -> bool:
        return true_condition(self.conditions, kind) is not None


class PendingWorkload(KubernetesObject, frozen=True, kw_only=True):
    """A Workload in Kueue's visibility API."""

    priority: int = 0
    local_queue_name: str = ""
    position_in_local_queue: int = 0
    """0 is next."""


WORKLOAD = Decoder(Workload)
PENDING_WORKLOAD = Decoder(PendingWorkload)


def queues_of(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """Return the LocalQueues in which they wait, the longest first."""
    names = [workload.spec.queue_name for workload in workloads if workload.spec.queue_name and workload.waits]
    return tuple(sorted(set(names), key=lambda name: (-names.count(name), name)))


class ResourceQuota(KubernetesStruct, frozen=True, kw_only=True):
    """The quota of one resource in a flavor, or its use. Numbers are as Kubernetes writes them: a number or a text."""

    name: str
    nominal_quota: Any = "0"
    borrowing_limit: Any = None
    """How much of the cohort's it may use, too; unlimited if absent."""
    total: Any = "0"
    """What is used, in a status."""


class FlavorQuotas(KubernetesStruct, frozen=True, kw_only=True):
    name: str
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(KubernetesStruct, frozen=True, kw_only=True):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class SelectorTerm(KubernetesStruct, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(KubernetesStruct, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorTerm, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        exact = all(labels.get(key) == value for key, value in self.match_labels.items())
        return exact and all(_holds(term, labels) for term in self.match_expressions)


def _holds(term: SelectorTerm, labels: Mapping[str, str]) -> bool:
    match term.operator:
        case "In":
            return labels.get(term.key) in term.values
        case "NotIn":
            return labels.get(term.key) not in term.values
        case "Exists":
            return term.key in labels
        case "DoesNotExist":
            return term.key not in labels
        case _:
            return True


class CheckRule(KubernetesStruct, frozen=True, kw_only=True):
    name: str
    on_flavors: tuple[str, ...] = ()


class ChecksStrategy(KubernetesStruct, frozen=True, kw_only=True):
    admission_checks: tuple[CheckRule, ...] = ()


class QueueSpec(KubernetesStruct, frozen=True, kw_only=True):
    stop_policy: str = "None"


class LocalQueueSpec(QueueSpec, frozen=True, kw_only=True):
    cluster_queue: str | None = None


class LocalQueue(KubernetesObject, frozen=True, kw_only=True):
    spec: LocalQueueSpec = LocalQueueSpec()
    status: ConditionsStatus = ConditionsStatus()


class ClusterQueueSpec(QueueSpec, frozen=True, kw_only=True):
    cohort: str = ""
    cohort_name: str = ""
    """The same in v1beta2."""
    queueing_strategy: str = ""
    namespace_selector: LabelSelector | None = None
    """None selects nothing, an empty one everything."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    admission_checks: tuple[str, ...] = ()
    """Only in v1beta1."""
    admission_checks_strategy: ChecksStrategy = ChecksStrategy()


class ClusterQueueStatus(ConditionsStatus, frozen=True, kw_only=True):
    pending_workloads: int = 0
    flavors_usage: tuple[FlavorQuotas, ...] = ()


class ClusterQueue(KubernetesObject, frozen=True, kw_only=True):
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()

    @property
    def cohort(self) -> str | None:
        return self.spec.cohort or self.spec.cohort_name or None

    @property
    def flavors(self) -> tuple[str, ...]:
        """Return the names of its ResourceFlavors."""
        return tuple(dict.fromkeys(flavor.name for group in self.spec.resource_groups for flavor in group.flavors))

    @property
    def required_checks(self) -> dict[str, tuple[str, ...]]:
        """Return the names of its AdmissionChecks, with the flavors that each is for; without flavors it is for all."""
        rules = {rule.name: rule.on_flavors for rule in self.spec.admission_checks_strategy.admission_checks}
        return {**dict.fromkeys(self.spec.admission_checks, ()), **rules}

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """Return the total and used quota of each flavor, in the queue's order."""
        used = {
            (flavor.name, resource.name): str(resource.total)
            for flavor in self.status.flavors_usage
            for resource in flavor.resources
        }
        return tuple(
            Quota(
                flavor=flavor.name,
                resource=resource.name,
                total=str(resource.nominal_quota),
                used=used.get((flavor.name, resource.name), "0"),
            )
            for group in self.spec.resource_groups
            for flavor in group.flavors
            for resource in flavor.resources
        )


class Taint(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""

    @property
    def excludes(self) -> bool:
        """Return whether it excludes pods; else it makes a node less preferred."""
        return self.effect in ("NoSchedule", "NoExecute")


class Toleration(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """source: kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration"""
        if self.effect not in ("", taint.effect):
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return (self.key, self.value) == (taint.key, taint.value)


class FlavorSpec(KubernetesStruct, frozen=True, kw_only=True):
    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    """Kueue adds them to the pods that get the flavor."""


class ResourceFlavor(KubernetesObject, frozen=True, kw_only=True):
    spec: FlavorSpec = FlavorSpec()


LOCAL_QUEUE = Decoder(LocalQueue)
CLUSTER_QUEUE = Decoder(ClusterQueue)
RESOURCE_FLAVOR = Decoder(ResourceFlavor)
TOLERATIONS = Decoder(tuple[Toleration, ...])
