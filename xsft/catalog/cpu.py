"""CPU machines that xpk knows, and the memory that GKE leaves to pods on them. Pure."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from xsft.catalog.data import toml

GIB = 2**30
MIB = 2**20

RESERVED_MEMORY = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06))
"""GKE's memory reservation: (GiB, share) steps in order, then 2 % of the rest.

source: docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes, "Memory reservations"
"""
RESERVED_OF_THE_REST = 0.02
EVICTION_BYTES = 100 * MIB
"""Additional memory kept free before pods are evicted; source: the same page, "Eviction threshold"."""


class CpuType(Struct, frozen=True, kw_only=True):
    """A CPU machine type; cpu_types.toml explains the fields."""

    name: str
    """Value for `xpk workload create --device-type`."""
    machine: str
    """GCE machine type: the value of the node label node.kubernetes.io/instance-type."""
    vcpus: int
    memory_gib: float

    @property
    def pod_memory(self) -> int:
        """Bytes available to pods on one node."""
        unreserved, reserved = self.memory_gib, 0.0
        for gib, share in RESERVED_MEMORY:
            reserved += min(unreserved, gib) * share
            unreserved -= min(unreserved, gib)
        return int((self.memory_gib - reserved - unreserved * RESERVED_OF_THE_REST) * GIB) - EVICTION_BYTES


@cache
def cpu_types() -> tuple[CpuType, ...]:
    """Return all CPU types, the smallest first."""
    rows = (CpuType(name=name, **row) for name, row in toml("cpu_types.toml").items())
    return tuple(sorted(rows, key=lambda cpu_type: cpu_type.memory_gib))


def cpu_type_for(memory: int) -> CpuType | None:
    """Return the smallest type with that many bytes for pods, or None."""
    return next((cpu_type for cpu_type in cpu_types() if cpu_type.pod_memory >= memory), None)
