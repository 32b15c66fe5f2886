"""Check the mesh: how chips and slices are split, against the topology, the batch and the model's dimensions. Pure.

source: maxtext@0.2.5 configs/base.yml logical_axis_rules, configs/types.py calculate_global_batch_sizes; jax@0.11.0
_src/mesh_utils.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

from xsft.base.problems import Problem, error, note
from xsft.catalog.models import CatalogModel, pins
from xsft.catalog.releases import key_hint, key_ok
from xsft.catalog.sizes import DEFAULT_AXES, Axes, given_axes, mesh_axes
from xsft.catalog.tpu import Slice
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

WEIGHT_AXES = ("fsdp", "context", "expert")
"""Axes that together split the embedding dimension of attention weights, and DeepSeek's low ranks."""

BATCH_AXES = ("data", "fsdp", "fsdp_transpose", "expert")
HEAD_AXES = ("tensor", "tensor_sequence", "autoregressive")
RING = re.compile(r"hybrid_ring_(\d+)x(\d+)")
OWN_RULES = ("custom_mesh", "custom_mesh_and_rule", "logical_axis_rules", "mesh_axes", "optimize_mesh_for_tpu_v6e")
"""Keys, of the workload or the model's own configuration, that replace the rules these checks reason with."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for shapes that JAX or MaxText would refuse after the slices have started."""
    del facts
    if run.spec.on_this_machine:
        if run.spec.parallelism.ici or run.spec.parallelism.dcn:
            yield note("mesh-ignored", "parallelism", "On this machine JAX sees one device: the mesh is left out.")
        return
    yield from _check_axes(run)
    if run.slice is None:
        return
    wrong = tuple(_check_product(keys, "ici", run.slice.devices)) + tuple(_check_product(keys, "dcn", run.num_slices))
    yield from wrong
    if wrong:
        return
    yield from _check_ring(run, keys)
    if any(keys.get(key) or run.pins.get(key) for key in OWN_RULES):
        return
    ici, dcn = mesh_axes(keys, "ici", total=run.slice.devices), mesh_axes(keys, "dcn", total=run.num_slices)
    axes = {axis: ici.get(axis, 1) * dcn.get(axis, 1) for axis in {*ici, *dcn}}
    yield from _check_physical_mesh(run.slice, ici, keys)
    yield from _check_batch(run, keys, axes)
    if run.model is not None and not is_on(keys.get("override_model_config", False)):
        yield from _check_dimensions(run.model, axes)
    if run.num_slices > 1 and dcn.get("data", 1) == run.num_slices:
        message = f"Each of the {run.num_slices} slices holds the whole state: more slices do not save memory this way."
        yield note(
            "mesh-replicas", "parallelism.dcn", message, f"Set dcn: {{fsdp: {run.num_slices}}} to split it over slices."
        )


def _check_axes(run: Run) -> Iterator[Problem]:
    version = run.release.version
    for group, sizes in (("ici", run.spec.parallelism.ici), ("dcn", run.spec.parallelism.dcn)):
        for axis in sizes:
            key = f"{group}_{axis}_parallelism"
            if not key_ok(key, version=version):
                message, fix = f"MaxText {version} has no {key}.", key_hint(key, version=version)
                yield error("mesh-axis-unknown", f"parallelism.{group}.{axis}", message, fix)


def _check_ring(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check that a ring's shape is that of the ici axes. source: maxtext@0.2.5 utils/max_utils.py
    [is_valid_custom_mesh]."""
    ring = RING.fullmatch(str(keys.get("custom_mesh")))
    sizes = mesh_axes(keys, "ici", total=run.slice.devices if run.slice else 0)
    if ring and {*sizes.values()} - {1} != {int(ring[1]), int(ring[2])}:
        message = (
            f"custom_mesh {ring[0]} needs ici axes of {ring[1]} and {ring[2]} ways, and not"
            f" {', '.join(f'{axis} {size}' for axis, size in sizes.items())}: MaxText stops with `Invalid custom_mesh`."
        )
        yield error("mesh-custom", where_of("custom_mesh", run), message, "Remove it, or set such axes.")


def _check_product(keys: Keys, group: str, total: int) -> Iterator[Problem]:
    sizes = given_axes(keys, group)
    free = sorted(axis for axis, size in sizes.items() if size == -1)
    product = prod(size for size in sizes.values() if size != -1)
    shape = " × ".join(f"{axis} {size}" for axis, size in sizes.items() if size != 1) or "all axes 1"
    what = f"the {total} devices of one slice" if group == "ici" else f"num_slices {total}"
    where = f"parallelism.{group}"
    if len(free) > 1:
        message = (
            f"{' and '.join(free)} are both -1 in {group}; MaxText fills one axis per group (fsdp is -1 unless set)."
        )
        yield error("mesh-two-free", where, message, "Give all but one of them a number.")
    elif product < 1 or (total % product if free else product != total):
        message = f"{shape} does not make {what}."
        fix = _product_fix(group, sizes, total)
        if group == "ici":
            yield error("mesh-ici-product", where, message, fix)
        else:
            yield error("mesh-dcn-product", where, message, fix)


def _product_fix(group: str, sizes: Axes, total: int) -> str:
    fill = next(iter(DEFAULT_AXES[group]))
    others = prod(size for axis, size in sizes.items() if axis != fill and size > 0)
    if total % others == 0:
        return f"Set {fill}: {total // others}, so that the product is {total}."
    return f"Choose axes whose product is {total}."


def _check_physical_mesh(run: Slice, ici: Axes, keys: Keys) -> Iterator[Problem]:
    """Check the physical mesh; an error only if no split of the physical axes among the logical ones exists, for JAX's
    search is greedy.

    Slices of up to 8 chips have an order of their own in JAX and take any shape; two devices per chip are not modelled.
    """
    sizes = [size for size in ici.values() if size > 1]
    if run.chips <= 8 or run.devices != run.chips or is_on(keys.get("allow_split_physical_axes", False)):
        return
    if sizes != [run.chips] and not _assignable(sizes, [size for size in run.physical_axes if size > 1]):
        shape = " × ".join(f"{axis} {size}" for axis, size in ici.items() if size > 1)
        message = (
            f"{shape} cannot be laid on a {run.topology} slice: each axis must be a product of whole physical axes."
        )
        fix = "Choose other sizes, or set overrides.maxtext.allow_split_physical_axes: true (slower collectives)."
        yield error("mesh-physical-axes", "parallelism.ici", message, fix)


def _assignable(sizes: Sequence[int], physical: Sequence[int]) -> bool:
    if not sizes:
        return True
    first, *others = sizes
    for count in range(1, len(physical) + 1):
        for chosen in combinations(range(len(physical)), count):
            if prod(physical[i] for i in chosen) == first:
                unused = [size for i, size in enumerate(physical) if i not in chosen]
                if _assignable(others, unused):
                    return True
    return False


def _check_batch(run: Run, keys: Keys, axes: Axes) -> Iterator[Problem]:
    """Check the batch: MaxText trains int(devices × per_device_batch_size) sequences per micro-step, split over the
    batch axes."""
    per_device = number(keys.get("per_device_batch_size")) or 1.0
    exact = per_device * run.devices
    ways = prod(max(1, axes.get(axis, 1)) for axis in BATCH_AXES)
    if not exact.is_integer() or int(exact) % ways:
        message = (
            f"per_device_batch_size {per_device:g} × {run.devices} devices = {exact:g} sequences, not a multiple of "
            f"the {ways} ways"
        )
        fix = (
            f"Use a multiple of {ways / run.devices:g}, or move chips to an axis that does not split the batch "
            "(tensor, context)."
        )
        yield error("batch-not-divisible", "train.per_device_batch_size", f"{message} that split the batch.", fix)


def _check_dimensions(model: CatalogModel, axes: Axes) -> Iterator[Problem]:
    """Check that the mesh divides the model's dimensions: JAX refuses a sharding that does not (IndivisibleError).

    source: ahead-of-time compilation: gpt-oss, 2880 over fsdp=256; deepseek3, kv_lora_rank 512 over 1024. Run with
    maxtext@0.2.5 on 8 CPU devices: embedding 60 over fsdp=8.
    """
    ways = prod(max(1, axes.get(axis, 1)) for axis in WEIGHT_AXES)
    for name, size in (("embedding", model.emb), *_low_ranks(model)):
        if size % ways:
            message = f"{model.name}'s {name} dimension {size} is not divisible by fsdp × context × expert = {ways}."
            fix = f"Make that product a divisor of {size}, and use the other chips for tensor or data."
            yield error("mesh-not-dividing", "parallelism", message, fix)
    if model.moe and model.experts % max(1, axes.get("expert", 1)):
        message = f"expert {axes['expert']} does not divide {model.name}'s {model.experts} experts."
        yield error("mesh-experts", "parallelism", message, f"Use a divisor of {model.experts}.")
    if not model.moe and axes.get("expert", 1) > 1:
        message = f"{model.name} has no experts: MaxText splits its weights and its batch over expert as over fsdp."
        yield note("mesh-no-experts", "parallelism", message, "Use fsdp instead of expert.")
    # Check that the tensor axes divide the heads. source: run with maxtext@0.2.5 on 8 CPU devices: "num_kv_heads
    # (2) … must be divisible by 4".
    ways = prod(max(1, axes.get(axis, 1)) for axis in HEAD_AXES)
    multi_latent = pins(model.name).get("attention_type") == "mla"
    heads = (("query", model.q_heads),) if multi_latent else (("query", model.q_heads), ("key-value", model.kv_heads))
    for name, count in heads:
        if count % ways:
            message = f"The tensor axes split {ways} ways, but {model.name} has {count} {name} heads."
            yield error("mesh-heads", "parallelism", message, f"Use a divisor of {count} for tensor.")


def _low_ranks(model: CatalogModel) -> Iterator[tuple[str, int]]:
    for key in ("kv_lora_rank", "q_lora_rank"):
        size = pins(model.name).get(key)
        if isinstance(size, int) and size > 0:
            yield key, size
