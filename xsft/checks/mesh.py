"""Check the mesh: how chips and slices are split, against the topology, the batch and the model's dimensions; and the
sequence length: TPU's flash attention must divide it, the model must know as many positions, and its parts on several
chips must keep their order. Pure.

source: maxtext@0.2.5 configs/base.yml logical_axis_rules, configs/types.py calculate_global_batch_sizes,
layers/attention_op.py [tpu_flash_attention, create_sa_config]; jax@0.11.0 _src/mesh_utils.py,
experimental/pallas/ops/tpu/splash_attention. tests/contract/test_attention_blocks.py compares the rule with the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from math import prod

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.models import CatalogModel, context_length, pins
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
LANES = 128
"""Numbers in a row of the chip's vector registers."""
DEFAULT_BLOCK = 512
"""Default of every sa_block_* key. source: maxtext@0.2.5 configs/base.yml."""
OTHER_KERNELS = frozenset({"compressed", "block_diffusion"})
"""Values of attention_type whose sequences MaxText pads itself, or whose mask is another one."""
SEQUENCE_AXES = tuple(f"{group}_{axis}_parallelism" for group in ("ici", "dcn") for axis in ("context", "sequence"))


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    yield from check_mesh(run, keys, facts)
    yield from check_attention(run, keys, facts)


def check_mesh(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
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
    ici = mesh_axes(keys, "ici", total=run.slice.devices)
    dcn = mesh_axes(keys, "dcn", total=run.num_slices)
    axes = {axis: ici.get(axis, 1) * dcn.get(axis, 1) for axis in {*ici, *dcn}}
    yield from _check_physical_mesh(run.slice, ici, keys)
    yield from _check_batch(run, keys, axes)
    if run.model is not None and not is_on(keys.get("override_model_config")):
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
                message = f"MaxText {version} has no {key}."
                fix = key_hint(key, version=version)
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
    if run.chips <= 8 or run.devices != run.chips or is_on(keys.get("allow_split_physical_axes")):
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


def check_attention(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check blocks that do not divide the sequence: the run would stop at its first compilation."""
    del facts
    length = number(keys.get("max_target_length"))
    yield from _check_context(run, keys, length or 0)
    if not run.spec.on_cluster or length is None or not _uses_flash(run, keys, length):
        return
    why = misfit(int(length), {name: block_of(name, keys) for name in (*ROWS, *COLUMNS, *PARTS)})
    if why:
        message = (
            f"Flash attention cannot cut {int(length)} tokens: {why}. The run would stop at its first compilation."
        )
        yield error(
            "attention-blocks", where_of("max_target_length", run), message, _fix(int(length), keys), kind="disputable"
        )


def _check_context(run: Run, keys: Keys, length: float) -> Iterator[Problem]:
    """Check for more positions than the model was trained for. Rotary ones have no end, so MaxText trains on."""
    trained = context_length(run.spec.model.name)
    has_own_positions = any(key.startswith("rope_") or key.endswith("position_embeddings") for key in keys)
    if trained and length > trained and not has_own_positions and (run.spec.model.checkpoint or run.spec.model.hf):
        message = (
            f"max_target_length {length:g} is more than the {trained:,} positions that {run.spec.model.name} "
            "was trained for: its output for later positions is useless, and MaxText gives no error."
        )
        fix = f"Set at most {trained}, or give a reason under checks: if the run is to lengthen the context."
        yield warning("sequence-beyond-context", where_of("max_target_length", run), message, fix)
    # Check context parallelism with load balancing: its attention masks expect reordered tokens; SFT does not
    # reorder. source: maxtext@0.2.5 utils/train_utils.py [setup_train_loop] reorders the batch of pre-training;
    # trainers/post_train/sft/hooks.py does not, and layers/attention_op.py [_load_balanced_context_parallel] asks
    # the configuration alone.
    split = any((number(keys.get(f"{group}_context_parallelism")) or 1) != 1 for group in ("ici", "dcn"))
    flash = keys.get("attention", "autoselected") in ("autoselected", "flash")
    if run.spec.on_cluster and split and flash and is_on(keys.get("context_parallel_load_balance", True)):
        message = (
            "The context axis splits sequences, and context_parallel_load_balance (MaxText's default) expects reordered"
            " tokens, but MaxText's SFT trainer does not reorder them: tokens attend to later ones, without an error."
        )
        fix = "Set overrides.maxtext.context_parallel_load_balance: false, or use another axis."
        yield warning("context-order", where_of("context_parallel_load_balance", run) or "parallelism", message, fix)


def _uses_flash(run: Run, keys: Keys, length: float) -> bool:
    """Return whether MaxText uses the kernel, with whole sequences on each chip. `autoselected` uses it from 128 tokens
    up."""
    attention = keys.get("attention", "autoselected")
    split = any((number(keys.get(axis)) or 1) != 1 for axis in SEQUENCE_AXES)
    model = run.pins
    other = model.get("attention_type") in OTHER_KERNELS or model.get("use_indexer") or "attention_type" in keys
    return not split and not other and (attention == "flash" or (attention == "autoselected" and length >= LANES))


ROWS = ("sa_block_q", "sa_block_q_dkv", "sa_block_q_dq")
"""Blocks of queries: forward, and in the two backward kernels."""
COLUMNS = ("sa_block_kv", "sa_block_kv_dkv", "sa_block_kv_dq")
PARTS = ("sa_block_kv_compute", "sa_block_kv_dkv_compute")
"""Parts of the first two COLUMNS that are computed at once."""
IN_LANES = ("sa_block_kv_compute", "sa_block_kv_dq", "sa_block_q_dkv")
"""Blocks that fill whole rows of registers."""


def block_of(name: str, keys: Keys) -> int:
    return int(number(keys.get(name)) or DEFAULT_BLOCK)


def misfit(length: int, blocks: Mapping[str, int]) -> str | None:
    """Return why the kernel refuses this length with these blocks; None if it takes them. A block longer than the
    sequence is cut to it."""
    cut = {name: min(block, length) for name, block in blocks.items()}
    for name in chain(ROWS, COLUMNS):
        if length % cut[name]:
            return f"{name} {cut[name]} does not divide the length"
    for part, column in zip(PARTS, COLUMNS, strict=False):
        if cut[column] % cut[part]:
            return f"{part} {cut[part]} does not divide {column} {cut[column]}"
    wide = next((name for name in IN_LANES if cut[name] % LANES), None)
    return f"{wide} {cut[wide]} is not a multiple of {LANES}" if wide else None


def _fix(length: int, keys: Keys) -> str:
    """Return lengths that the blocks fit, or blocks that fit the length."""
    named = [name for name in (*ROWS, *COLUMNS, *PARTS) if name in keys]
    blocks = {name: block_of(name, keys) for name in (*ROWS, *COLUMNS, *PARTS)}
    size = DEFAULT_BLOCK if length > DEFAULT_BLOCK else LANES
    # The nearest lengths that the default blocks divide, below and above.
    nearest = dict.fromkeys((length // size * size, -(-length // size) * size))
    fitting = [str(candidate) for candidate in nearest if candidate and misfit(candidate, blocks) is None]
    lengths = f"Use max_target_length {' or '.join(fitting)}" if fitting else "Use another length"
    return f"{lengths}, or change {', '.join(named)}." if named else f"{lengths}."
