"""Machines that serve a model on a cluster: their accelerators, and the smallest one that holds a model. Pure."""

from __future__ import annotations

from functools import cache
from typing import Literal

from msgspec import Struct

from xsft.catalog.data import toml

GIB = 2**30
KINDS = ("tpu", "gpu")

USABLE = 0.9
"""Share of an accelerator's memory that vLLM takes. source: vllm@0.11.0 vllm/config/cache.py gpu_memory_utilization"""
BESIDE_WEIGHTS = 1.25
"""Factor of the weights, for the cache of keys and values; with less, few requests run at once."""
PER_ACCELERATOR = 2 * GIB
"""Bytes of each accelerator for activations and compiled programs."""


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
