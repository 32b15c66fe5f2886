"""TPU slices: xpk's type names, computed from six constants per generation. Pure.

source: xpk@1.16.0 src/xpk/core/system_characteristics.py; tests/catalog/test_tpu.py compares all 2,020 entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache
from math import prod
from typing import Any

from msgspec import Struct

from xsft.catalog.data import toml

SMALL_3D = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")
"""3D topologies smaller than one cube of 4x4x4 chips."""
LONGEST_AXIS = 256
"""Longest axis of a 3D topology; source: xpk@1.16.0 generate_tpu_topologies."""


class Generation(Struct, frozen=True, kw_only=True):
    """A TPU generation; tpu_types.toml explains the fields."""

    name: str
    cores_per_chip: int
    devices_per_chip: int
    accelerator: str
    machine: str
    topologies: tuple[str, ...] = ()
    max_cubes: int = 0
    any_order: bool = False
    single_chip: bool = False
    counting_up_to: int = 0
    counting_also: tuple[int, ...] = ()
    placement_policy: bool = False
    hbm_gib: float | None = None
    hbm_source: str = ""
    host_memory_gib: dict[str, int] = {}
    bf16_tflops: float | None = None
    aliases: tuple[str, ...] = ()
    accepted: str | None = None
    """An alias that xsft accepts; xpk gets its own name."""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Chips joined by ICI, scheduled as a whole. Equality compares generation and topology: `v6e-256 == v6e-16x16`."""

    generation: str
    topology: str
    """ICI shape in chips, `16x16` or `2x2x2`; also the value of the label cloud.google.com/gke-tpu-topology."""
    tpu_type: str
    """Canonical name: counting form if it means this topology (`v6e-256`), else topology form (`v5p-4x4x16`)."""
    xpk_type: str = field(compare=False)
    """The name that the user wrote; xpk gets it unchanged, so that users recognise the command line."""
    chips: int
    hosts: int
    """Number of VMs; in McJAX each runs one Python process."""
    chips_per_host: int
    cores_per_chip: int
    devices: int
    """Number of JAX devices, the product of the ici_* axes. Equals chips, except on tpu7x (two per chip)."""
    accelerator_label: str
    """Value of the node label cloud.google.com/gke-tpu-accelerator, `tpu-v6e-slice`."""
    machine_type: str
    placement_policy: bool
    """Whether xpk requests a workload placement policy from GCE (tpu7x with more than one host)."""
    hbm_gib: float | None
    """Memory per chip in GiB; None if unknown. `hbm_source`: measured or documented."""
    hbm_source: str
    bf16_tflops: float | None
    """Peak compute per chip in TFLOP/s; None if unknown."""

    """None for a generation whose pages do not name all three."""

    @property
    def device_tflops(self) -> float | None:
        """Peak bfloat16 TFLOP/s of one JAX device, the maximum of MaxText's `TFLOP/s/device`."""
        return self.bf16_tflops * self.chips / self.devices if self.bf16_tflops else None

    @property
    def host_memory(self) -> int | None:
        """Bytes of memory of one host; None if unknown."""
        gib = generations()[self.generation].host_memory_gib.get(self.machine_type.rpartition("-")[2])
        return None if gib is None else gib * 2**30

    @property
    def physical_axes(self) -> tuple[int, ...]:
        """Chips along each ICI axis, `(16, 16)`."""
        return _topology_axes(self.topology)

    @property
    def describe(self) -> str:
        """One line for messages; explains the number in a counting name."""
        counted = " (the number counts TensorCores, 2 per chip)" if self.cores_per_chip == 2 else ""
        return f"{self.xpk_type}: {self.topology}, {self.chips} chips on {self.hosts} hosts{counted}"


@lru_cache(maxsize=1024)
def parse_tpu_type(text: str) -> Slice:
    """Return the slice that xpk creates for `text`, counting form (`v6e-256`) or topology form (`v6e-16x16`).

    `v5e-8`, Google Cloud's name, is xpk's `v5litepod-8`. Raises ValueError, with the nearest types, for a type that xpk
    would refuse.
    """
    first, dash, size = text.partition("-")
    for generation in generations().values():
        if generation.accepted == first:  # Google Cloud's name: the line for xpk has xpk's
            text = f"{generation.name}{dash}{size}"
    name, size = _split_name(text)
    if name not in generations():
        raise ValueError(_unknown_generation(text))
    generation = generations()[name]
    topology = _topology(generation, size)
    if topology is None:
        cores = " (the number counts TensorCores, 2 per chip)" if generation.cores_per_chip == 2 else ""
        nearest = _nearest(generation, size)
        raise ValueError(f"{text!r} is not a TPU type that xpk accepts{cores}. Nearest: {nearest}.")
    return _slice(generation, topology=topology, xpk_type=text)


@cache
def slice_of(accelerator: str, topology: str) -> Slice | None:
    """Return the slice of two node labels, cloud.google.com/gke-tpu-accelerator and -topology; None if xpk has none."""
    generation = next((g for g in generations().values() if g.accelerator == accelerator), None)
    shape = _topology(generation, topology) if generation and "x" in topology else None
    return _slice(generation, topology=shape, xpk_type=f"{generation.name}-{shape}") if generation and shape else None


@cache
def slice_on(machine_type: str, topology: str | None) -> Slice | None:
    """Return the slice of a GKE node pool: its machine type, `ct6e-standard-4t`, and its placement policy's topology.

    Without a topology the pool's nodes are slices of one host. None if it has no TPU that xpk knows.
    """
    machine, _, chips = machine_type.rpartition("-")
    generation = next((g for g in generations().values() if g.machine == machine), None)
    if generation is None or not chips.removesuffix("t").isdecimal():
        return None
    shape = (
        _topology(generation, topology) if topology else _topology_of_count(generation, int(chips.removesuffix("t")))
    )
    return _slice(generation, topology=shape, xpk_type=f"{generation.name}-{shape}") if shape else None


def _split_name(text: str) -> tuple[str, str]:
    """Split generation and size. A generation's name may contain a dash; the longest known name wins."""
    first, _, size = text.partition("-")
    name = max((prefix for prefix in generations() if text.startswith(f"{prefix}-")), key=len, default=None)
    return (first, size) if name is None else (name, text[len(name) + 1 :])


@cache
def slices_by_size(generation: str) -> tuple[Slice, ...]:
    """Return a generation's slices of 1, 2, 4, 8 … chips, by their counting names."""
    cores = generations()[generation].cores_per_chip
    slices: list[Slice] = []
    for doublings in range(15):
        with suppress(ValueError):
            slices.append(parse_tpu_type(f"{generation}-{2**doublings * cores}"))
    return tuple(slices)


def tpu_types() -> Iterator[str]:
    """Yield every TPU type that xpk accepts, in both forms: thousands."""
    for generation in generations().values():
        for chips in _chip_counts(generation):
            yield f"{generation.name}-{chips * generation.cores_per_chip}"
            yield from (f"{generation.name}-{shape}" for shape in _shapes(generation, chips))


@cache
def generations() -> dict[str, Generation]:
    """Return all generations by xpk's prefix."""
    rows = toml("tpu_types.toml").items()
    return {name: Generation(name=name, **{key: _as_tuple(value) for key, value in row.items()}) for name, row in rows}


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _slice(generation: Generation, *, topology: str, xpk_type: str) -> Slice:
    chips = prod(_topology_axes(topology))
    chips_per_host = 1 if chips == 1 else 4  # a single chip has a machine type of its own, -1t
    means_this = _topology_of_count(generation, chips) == topology
    return Slice(
        generation=generation.name,
        topology=topology,
        tpu_type=f"{generation.name}-{chips * generation.cores_per_chip if means_this else topology}",
        xpk_type=xpk_type,
        chips=chips,
        hosts=chips // chips_per_host,
        chips_per_host=chips_per_host,
        cores_per_chip=generation.cores_per_chip,
        devices=chips * generation.devices_per_chip,
        accelerator_label=generation.accelerator,
        machine_type=f"{generation.machine}-{chips_per_host}t",
        placement_policy=generation.placement_policy and chips > chips_per_host,
        hbm_gib=generation.hbm_gib,
        hbm_source=generation.hbm_source,
        bf16_tflops=generation.bf16_tflops,
    )


def _topology(generation: Generation, size: str) -> str | None:
    """Return the topology of `size`, the part after the dash; None if xpk has no such type."""
    if re.fullmatch("[1-9][0-9]{0,5}", size):
        chips, remainder = divmod(int(size), generation.cores_per_chip)
        return None if remainder else _topology_of_count(generation, chips)
    if re.fullmatch("[1-9][0-9]{0,2}(x[1-9][0-9]{0,2}){1,2}", size):
        return size if size in _shapes(generation, prod(_topology_axes(size))) else None
    return None


def _topology_of_count(generation: Generation, chips: int) -> str | None:
    """Return the topology of a counting name: the most cube-like one if xpk lists it, else the first generated."""
    shapes = _shapes(generation, chips)
    if chips <= generation.counting_up_to or chips in generation.counting_also:
        return min(shapes, key=lambda shape: (sum(_topology_axes(shape)), _topology_axes(shape)), default=None)
    return next(iter(shapes), None)


def _shapes(generation: Generation, chips: int) -> tuple[str, ...]:
    """Return all topologies with that many chips, in xpk's order."""
    if generation.topologies:
        return tuple(shape for shape in generation.topologies if prod(_topology_axes(shape)) == chips)
    if chips == 1:
        return ("1x1x1",) if generation.single_chip else ()
    if chips < 64:  # less than one cube of 4x4x4 chips
        return tuple(shape for shape in SMALL_3D if prod(_topology_axes(shape)) == chips)
    cubes, remainder = divmod(chips, 64)
    return () if remainder or cubes > generation.max_cubes else tuple(_cuboids(cubes, generation))


def _cuboids(cubes: int, generation: Generation) -> Iterator[str]:
    for x in _divisors(cubes):
        for y in _divisors(cubes // x):
            z = cubes // x // y
            ordered = generation.any_order or x <= y <= z
            if ordered and 4 * max(x, y, z) <= LONGEST_AXIS:
                yield f"{4 * x}x{4 * y}x{4 * z}"


def _divisors(number: int) -> Iterator[int]:
    return (candidate for candidate in range(1, number + 1) if number % candidate == 0)


def _topology_axes(topology: str) -> tuple[int, ...]:
    return tuple(int(axis) for axis in topology.split("x"))


def _chip_counts(generation: Generation) -> tuple[int, ...]:
    listed = {prod(_topology_axes(shape)) for shape in generation.topologies}
    cubes = {64 * count for count in range(1, generation.max_cubes + 1)}
    below = {1, 4, 8, 16, 32} if generation.max_cubes else set()
    return tuple(chips for chips in sorted(listed | cubes | below) if _shapes(generation, chips))


def _unknown_generation(text: str) -> str:
    prefix, size = _split_name(text.lower())
    for generation in generations().values():
        if prefix in (generation.name, generation.accepted, *generation.aliases):
            meant = f"{generation.name}-{size}"
            return f"{text!r} is not a TPU type; xpk's name is {_if_known(generation, size, meant)}"
    close = get_close_matches(prefix, generations(), n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(f'{name}-…' for name in close)}?" if close else ""
    return f"{text!r} is not a TPU type: it starts with none of {', '.join(generations())}.{hint}"


def _if_known(generation: Generation, size: str, meant: str) -> str:
    if _topology(generation, size) is not None:
        return f"{meant!r}."
    return f"{generation.name}-…, and nearest to {meant!r} are {_nearest(generation, size)}."


def _nearest(generation: Generation, size: str) -> str:
    """Return two or three names near a wrong size, preferring the same shape in xpk's notation."""
    axes = [int(number) for number in re.findall("[0-9]{1,6}", size)]
    if len(axes) > 1:
        written = "x".join(str(axis) for axis in sorted(axes))
        if _topology(generation, written) is not None:
            return f"{generation.name}-{written}"
    target = prod(axes) if axes else 0
    if len(axes) == 1:  # a counting name
        target //= generation.cores_per_chip
    counts = sorted(_chip_counts(generation), key=lambda chips: (abs(chips - target), chips))[: 2 if axes else 3]
    return ", ".join(f"{generation.name}-{chips * generation.cores_per_chip}" for chips in counts)
