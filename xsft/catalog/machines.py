"""Machines beside the slices: CPU machines that xpk knows, and accelerators that serve a model on a cluster. Pure."""

from __future__ import annotations

from functools import cache
from typing import Literal

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
KINDS = ("tpu", "gpu")

USABLE = 0.9
"""Share of an accelerator's memory that vLLM takes. source: vllm@0.11.0 vllm/config/cache.py gpu_memory_utilization"""
BESIDE_WEIGHTS = 1.25
"""Factor of the weights, for the cache of keys and values; with less, few requests run at once."""
PER_ACCELERATOR = 2 * GIB
"""Bytes of each accelerator for activations and compiled programs."""


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
        unreserved = self.memory_gib
        reserved = 0.0
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


class ServingShape(Struct, frozen=True, kw_only=True):
    """A machine with its accelerators; the fields are those of serving_shapes.toml, where each is explained."""

    name: str
    kind: Literal["tpu", "gpu"]
    accelerator: str
    count: int
    memory_gib: float
    machine: str
    vcpus: int
    host_memory_gib: int
    topology: str | None = None

    @property
    def resource(self) -> str:
        """Return the extended resource that a pod requests."""
        match self.kind:
            case "tpu":
                return "google.com/tpu"
            case "gpu":
                return "nvidia.com/gpu"

    @property
    def node_selector(self) -> dict[str, str]:
        match self.kind:
            case "tpu":
                topology = {"cloud.google.com/gke-tpu-topology": self.topology} if self.topology else {}
                return {"cloud.google.com/gke-tpu-accelerator": self.accelerator, **topology}
            case "gpu":
                return {"cloud.google.com/gke-accelerator": self.accelerator}

    @property
    def usable(self) -> int:
        """Return the bytes of accelerator memory that vLLM takes."""
        return int(self.count * self.memory_gib * GIB * USABLE)

    def holds(self, weights: int) -> bool:
        """Return whether a model with so many bytes of weights fits, with room for requests."""
        return weights * BESIDE_WEIGHTS + self.count * PER_ACCELERATOR <= self.usable

    def splits(self, heads: int) -> bool:
        """Return whether vLLM can split so many attention heads among the accelerators. source: vllm@0.11.0
        vllm/config/model.py verify_with_parallel_config
        """
        return heads % self.count == 0


@cache
def serving_shapes() -> tuple[ServingShape, ...]:
    """Return all shapes; those with the least accelerator memory first."""
    rows = (ServingShape(name=name, **row) for name, row in toml("serving_shapes.toml").items())
    return tuple(sorted(rows, key=lambda shape: shape.usable))


def serving_types() -> tuple[str, ...]:
    """Return what `stages.serve.type` may name: a kind, or a shape."""
    return (*KINDS, *toml("serving_shapes.toml"))


def serving_shape_for(accelerator: str, *, weights: int, heads: int) -> ServingShape | None:
    """Return the smallest shape of a kind that holds the model, or the named shape if it does; None if none does."""
    named = (shape for shape in serving_shapes() if accelerator in (shape.name, shape.kind))
    return next((shape for shape in named if shape.holds(weights) and shape.splits(heads)), None)
