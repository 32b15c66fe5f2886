"""The TPU slices of a cluster: how many there are, which runs hold them, and which wait for them. Pure; nothing raises.

Slices are counted from nodes, use from Kueue's Workloads: quota that Kueue did not give is not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from xsft.base.lenient import JsonObject, count, mapping, rows, text
from xsft.catalog.tpu import Slice
from xsft.cluster.jobset_fields import shape_of
from xsft.cluster.objects import Resources, Workload

NODE_POOL = "cloud.google.com/gke-nodepool"
TPU = "google.com/tpu"


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
    nodes: tuple[JsonObject, ...]

    @property
    def available(self) -> bool:
        return len(self.nodes) >= self.shape.hosts and all(map(_schedulable, self.nodes))


def supplies(
    nodes: Iterable[JsonObject], workloads: Iterable[Workload], flavors: Mapping[str, JsonObject]
) -> tuple[TpuSupply, ...]:
    """Return the supply of each TPU type, the largest slices first. `flavors`: the ResourceFlavors by name."""
    units, users = tuple(slice_units(nodes)), _users(workloads, flavors)
    shapes = {unit.shape.tpu_type: unit.shape for unit in units} | {shape.tpu_type: shape for shape in users}
    ordered = sorted(shapes.values(), key=lambda shape: (-shape.chips, shape.tpu_type))
    return tuple(_supply(shape, units, tuple(users.get(shape, ()))) for shape in ordered)


def _supply(shape: Slice, units: tuple[SliceUnit, ...], users: tuple[SliceUser, ...]) -> TpuSupply:
    mine = [unit for unit in units if unit.shape == shape]
    return TpuSupply(
        tpu_type=shape.tpu_type,
        total=len(mine),
        unavailable=tuple(sorted(unit.name for unit in mine if not unit.available)),
        users=tuple(sorted(users, key=lambda user: (user.state, -user.slices, user.namespace, user.jobset))),
    )


def slice_units(nodes: Iterable[JsonObject]) -> Iterator[SliceUnit]:
    """Yield the slices. GKE makes a node pool for each slice of several hosts; a host of one-host slices is a slice."""
    pools: dict[tuple[str, Slice], list[JsonObject]] = defaultdict(list)
    for node in nodes:
        labels = mapping(node, "metadata", "labels")
        if shape := shape_of(labels):
            alone = shape.hosts == 1
            name = mapping(node, "metadata").get("name") if alone else labels.get(NODE_POOL)
            pools[text(name) or "?", shape].append(node)
    for (name, shape), found in pools.items():
        yield SliceUnit(name=name, shape=shape, nodes=tuple(found))


def _users(workloads: Iterable[Workload], flavors: Mapping[str, JsonObject]) -> dict[Slice, list[SliceUser]]:
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


def _held_chips(workload: Workload, flavors: Mapping[str, JsonObject]) -> dict[Slice, int]:
    """Return the chips that Kueue assigned; the flavor's node labels give the type."""
    chips: dict[Slice, int] = defaultdict(int)
    for pod_set in workload.admission.pod_set_assignments:
        flavor = flavors.get(pod_set.flavors.get(TPU, ""), {})
        amount = count(pod_set.resource_usage.get(TPU))
        if (shape := shape_of(mapping(flavor, "spec", "nodeLabels"))) and amount:
            chips[shape] += amount
    return chips


def _wanted_chips(workload: Workload) -> dict[Slice, int]:
    """Return the chips that its pods request; their node selector gives the type."""
    chips: dict[Slice, int] = defaultdict(int)
    for pod_set in workload.spec.pod_sets:
        pod = pod_set.template.spec
        each = sum(_requested(container.resources) for container in pod.containers)
        if (shape := shape_of(pod.node_selector)) and each:
            chips[shape] += each * pod_set.count
    return chips


def _requested(resources: Resources) -> int:
    return count(resources.requests.get(TPU)) or count(resources.limits.get(TPU))


def is_ready(node: JsonObject) -> bool:
    """Return whether the node's kubelet reports that it takes pods."""
    conditions = rows(mapping(node, "status").get("conditions"))
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _schedulable(node: JsonObject) -> bool:
    return is_ready(node) and mapping(node, "spec").get("unschedulable") is not True
