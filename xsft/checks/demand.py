"""The requests of a planned JobSet that the cluster must meet before it starts: queue, quota, classes, Secrets.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from msgspec import Struct

from xsft.base.lenient import JsonObject, mapping, text
from xsft.cluster.objects import TOLERATIONS, Toleration, typed
from xsft.spec.resolve import Run

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
TPU = "google.com/tpu"

_QUANTITY = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)([A-Za-z]*)")
_ARTIFACTS = re.compile(r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/:@]+)/")
"""source: cloud.google.com/artifact-registry/docs/docker/names"""
REPOSITORY = r"projects/\g<project>/locations/\g<location>/repositories/\g<name>"
"""The resource name of such a repository."""
_UNITS = {
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate(("", "K", "M", "G", "T", "P", "E")) if unit},
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
}
"""Suffix -> factor. source: kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity"""


class PodSet(Struct, frozen=True, kw_only=True):
    """One replicated job: identical pods, which Kueue admits together."""

    name: str
    pods: int
    requests: Mapping[str, Decimal]
    """The requests of all its pods together, by resource name."""
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    priority_class: str | None

    def requested(self, resource: str) -> Decimal:
        return self.requests.get(resource, Decimal(0))


class SecretNeed(Struct, frozen=True, kw_only=True):
    name: str
    key: str | None
    """The Secret's key; None if only the Secret itself is named."""
    where: str
    """Key path in the workload."""


class Demand(Struct, frozen=True, kw_only=True):
    namespace: str
    queue: str
    jobset: str
    run_name: str
    pod_sets: tuple[PodSet, ...]
    secrets: tuple[SecretNeed, ...]
    service_account: str = "default"
    """The pods' Kubernetes ServiceAccount."""
    host_network: bool = False
    """Whether pods use the network of their node, and so its Google service account."""
    buckets: tuple[str, ...] = ()
    """`gs://bucket` of output, checkpoint and data."""
    repository: str | None = None
    """`projects/…/locations/…/repositories/…` of Artifact Registry that the nodes pull from with their own account."""

    @property
    def asks_chips(self) -> bool:
        """Return whether any pod requests TPU chips; a CPU job requests none."""
        return any(pods.requests.get(TPU) for pods in self.pod_sets)

    @property
    def priority_classes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.priority_class for p in self.pod_sets if p.priority_class))


def demand_of(manifest: JsonObject, run: Run) -> Demand:
    """Return the demand of the object that will be created; the run adds the names of the Secrets' keys."""
    metadata = manifest["metadata"]
    jobs = manifest["spec"]["replicatedJobs"]
    pods = [job["template"]["spec"]["template"]["spec"] for job in jobs]
    accounts = filter(None, (text(pod.get("serviceAccountName")) for pod in pods))
    data = run.spec.data
    paths = (run.output, run.spec.model.checkpoint, data.hf_train_files, data.hf_eval_files)
    buckets = (f"gs://{str(path).split('/')[2]}" for path in paths if str(path).startswith("gs://"))
    # With a pull secret the nodes pull by that login, not by their own account.
    registry = _ARTIFACTS.match(run.spec.image.ref or "") if run.spec.image.pull_secret is None else None
    return Demand(
        namespace=metadata.get("namespace", run.namespace),
        queue=mapping(metadata, "labels").get(QUEUE_LABEL, run.queue),
        jobset=metadata["name"],
        run_name=run.run_name,
        pod_sets=tuple(map(_pod_set, jobs)),
        secrets=tuple(_needed_secrets(run, pods)),
        service_account=next(accounts, "default"),
        host_network=any(pod.get("hostNetwork") for pod in pods),
        buckets=tuple(dict.fromkeys(buckets)),
        repository=registry.expand(REPOSITORY) if registry else None,
    )


def quantity(text: object) -> Decimal:
    """Return a Kubernetes quantity (`500m`, `2000G`, `64`, `1e3`) as a number. Raises ValueError for anything else."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a Kubernetes quantity")
    return Decimal(match[1]) * _UNITS[match[2]]


def decimal_text(number: Decimal) -> str:
    """Return the number as text without exponent or trailing zeros: `1024`, `0.5`."""
    return f"{number.normalize():f}"


def _pod_set(replicated: JsonObject) -> PodSet:
    job = replicated["template"]["spec"]
    pod = job["template"]["spec"]
    pods = int(replicated.get("replicas", 1)) * int(job.get("parallelism") or 1)
    return PodSet(
        name=str(replicated["name"]),
        pods=pods,
        requests={name: amount * pods for name, amount in pod_requests(pod).items()},
        node_selector=pod.get("nodeSelector") or {},
        tolerations=typed(pod.get("tolerations") or [], TOLERATIONS),
        priority_class=pod.get("priorityClassName"),
    )


def pod_requests(pod: JsonObject) -> dict[str, Decimal]:
    """Return the requests as the scheduler and Kueue count them: containers and sidecars together, or an init container
    alone if that is more.

    source: kubernetes.io/docs/concepts/workloads/pods/sidecar-containers, "Resource sharing within containers".
    """
    inits = pod.get("initContainers") or []
    sidecars = [c for c in inits if c.get("restartPolicy") == "Always"]
    total: dict[str, Decimal] = {}
    for container in (*pod["containers"], *sidecars):
        for name, amount in _container_requests(container).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for container in (c for c in inits if c not in sidecars):
        for name, amount in _container_requests(container).items():
            total[name] = max(total.get(name, Decimal(0)), amount)
    return total


def _container_requests(container: JsonObject) -> dict[str, Decimal]:
    """Return a container's requests; a limit without a request counts as one."""
    resources = container.get("resources") or {}
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {str(name): quantity(amount) for name, amount in merged.items()}


def _needed_secrets(run: Run, pods: list[JsonObject]) -> Iterator[SecretNeed]:
    token = run.spec.secrets.hf_token
    pull = run.spec.image.pull_secret
    if token is not None:
        yield SecretNeed(name=token.secret, key=token.key, where="secrets.hf_token")
    containers = [container for pod in pods for container in pod["containers"]]
    variables = {variable["name"] for container in containers for variable in container.get("env") or ()}
    for variable, secret in run.spec.secrets.env.items():
        if variable in variables:  # a conversion has none of the training's
            yield SecretNeed(name=secret.secret, key=secret.key, where=f"secrets.env.{variable}")
    if pull is not None:
        yield SecretNeed(name=pull, key=None, where="image.pull_secret")
