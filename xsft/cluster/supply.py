"""The TPU slices of a cluster: how many there are, which runs hold them, and which wait for them. Pure; nothing raises.

Slices are counted from nodes, use from Kueue's Workloads: quota that Kueue did not give is not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.json import Decoder

from xsft.base.lenient import count
from xsft.catalog.tpu import Slice
from xsft.cluster.jobset_fields import shape_of
from xsft.cluster.objects import (
    ConditionsStatus,
    KubernetesObject,
    KubernetesStruct,
    ResourceFlavor,
    Taint,
    Workload,
    true_condition,
)

NODE_POOL = "cloud.google.com/gke-nodepool"
TPU = "google.com/tpu"


class NodeSpec(KubernetesStruct, frozen=True, kw_only=True):
    unschedulable: bool = False
    """Cordoned."""
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(name="providerID", default="")
    """On Google Cloud `gce://project/zone/machine`."""


class NodeStatus(ConditionsStatus, frozen=True, kw_only=True):
    allocatable: dict[str, Any] = field(default_factory=dict)


class Node(KubernetesObject, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Return whether its kubelet reports that it takes pods."""
        return true_condition(self.status.conditions, "Ready") is not None


NODE = Decoder(Node)


class SliceUser(Struct, frozen=True, kw_only=True):
    """A Kueue Workload that holds slices of a type, or waits for them."""

    jobset: str
    """Name of its JobSet; of the Workload itself if it has none."""
    namespace: str
    slices: int
    state: Literal["holds", "waits"]


class TpuSupply(Struct, frozen=True, kw_only=True):
    """The slices of one TPU type."""

    tpu_type: str
    total: int
    unavailable: tuple[str, ...] = ()
    """Node pools (nodes, for slices of one host) that are cordoned, not Ready, or lack hosts."""
    users: tuple[SliceUser, ...] = ()

    @property
    def in_use(self) -> int:
        return self._sum("holds")

    @property
    def queued(self) -> int:
        return self._sum("waits")

    @property
    def free(self) -> int:
        """Return how many could start now. A held slice that is unavailable counts once, as unavailable."""
        return max(0, self.total - len(self.unavailable) - self.in_use)

    def _sum(self, state: str) -> int:
        return sum(user.slices for user in self.users if user.state == state)


class SliceUnit(Struct, frozen=True, kw_only=True):
    """The nodes of one slice."""

    name: str
    shape: Slice
    nodes: tuple[Node, ...]

    @property
    def available(self) -> bool:
        return len(self.nodes) >= self.shape.hosts and all(
            node.ready and not node.spec.unschedulable for node in self.nodes
        )


def supplies(
    nodes: Iterable[Node], workloads: Iterable[Workload], flavors: Mapping[str, ResourceFlavor]
) -> tuple[TpuSupply, ...]:
    """Return the supply of each TPU type, the largest slices first. `flavors`: the ResourceFlavors by name."""
    units = tuple(slice_units(nodes))
    users = _users(workloads, flavors)
    shapes = {unit.shape.tpu_type: unit.shape for unit in units} | {shape.tpu_type: shape for shape in users}
    ordered = sorted(shapes.values(), key=lambda shape: (-shape.chips, shape.tpu_type))
    of_types = []
    for shape in ordered:
        slices = [unit for unit in units if unit.shape == shape]
        unavailable = sorted(unit.name for unit in slices if not unit.available)
        of_type = sorted(users.get(shape, ()), key=lambda user: (user.state, -user.slices, user.namespace, user.jobset))
        supply = TpuSupply(
            tpu_type=shape.tpu_type, total=len(slices), unavailable=tuple(unavailable), users=tuple(of_type)
        )
        of_types.append(supply)
    return tuple(of_types)


def slice_units(nodes: Iterable[Node]) -> Iterator[SliceUnit]:
    """Yield the slices. GKE makes a node pool for each slice of several hosts; a host of one-host slices is a slice."""
    pools: dict[tuple[str, Slice], list[Node]] = defaultdict(list)
    for node in nodes:
        labels = node.metadata.labels
        if shape := shape_of(labels):
            name = node.name if shape.hosts == 1 else labels.get(NODE_POOL) or "?"
            pools[name, shape].append(node)
    for (name, shape), hosts in pools.items():
        yield SliceUnit(name=name, shape=shape, nodes=tuple(hosts))


def _users(workloads: Iterable[Workload], flavors: Mapping[str, ResourceFlavor]) -> dict[Slice, list[SliceUser]]:
    users: dict[Slice, list[SliceUser]] = defaultdict(list)
    for workload in workloads:
        state: Literal["holds", "waits"] = "waits" if workload.waits else "holds"
        chips = _wanted_chips(workload) if workload.waits else _held_chips(workload, flavors)
        for shape, amount in chips.items():
            user = SliceUser(
                jobset=workload.owner.name or workload.name,
                namespace=workload.namespace,
                slices=-(-amount // shape.chips),
                state=state,
            )
            users[shape].append(user)
    return users


def _held_chips(workload: Workload, flavors: Mapping[str, ResourceFlavor]) -> dict[Slice, int]:
    """Return the chips that Kueue assigned; the flavor's node labels give the type."""
    chips: dict[Slice, int] = defaultdict(int)
    for pod_set in workload.admission.pod_set_assignments:
        flavor = flavors.get(pod_set.flavors.get(TPU, ""))
        amount = count(pod_set.resource_usage.get(TPU))
        if flavor and amount and (shape := shape_of(flavor.spec.node_labels)):
            chips[shape] += amount
    return chips


def _wanted_chips(workload: Workload) -> dict[Slice, int]:
    """Return the chips that its pods request; their node selector gives the type."""
    chips: dict[Slice, int] = defaultdict(int)
    for pod_set in workload.spec.pod_sets:
        pod = pod_set.template.spec
        requested = (container.resources for container in pod.containers)
        each = sum(count(of.requests.get(TPU)) or count(of.limits.get(TPU)) for of in requested)
        if (shape := shape_of(pod.node_selector)) and each:
            chips[shape] += each * pod_set.count
    return chips
