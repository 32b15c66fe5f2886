"""Check the sequence length: TPU's flash attention must divide it, the model must know as many positions, and its parts
on several chips must keep their order. Pure.

source: maxtext@0.2.5 layers/attention_op.py [tpu_flash_attention, create_sa_config]; jax@0.11.0
experimental/pallas/ops/tpu/splash_attention. tests/contract/test_attention_blocks.py compares the rule with the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from xsft.base.problems import Problem, error, warning
from xsft.catalog.models import context_length
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

LANES = 128
"""Numbers in a row of the chip's vector registers."""
DEFAULT_BLOCK = 512
"""Default of every sa_block_* key. source: maxtext@0.2.5 configs/base.yml."""
OTHER_KERNELS = frozenset({"compressed", "block_diffusion"})
"""Values of attention_type whose sequences MaxText pads itself, or whose mask is another one."""
SEQUENCE_AXES = tuple(f"{group}_{axis}_parallelism" for group in ("ici", "dcn") for axis in ("context", "sequence"))


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
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
    fitting = [size for size in _dividing_lengths(length) if misfit(size, blocks) is None]
    lengths = f"Use max_target_length {' or '.join(map(str, fitting))}" if fitting else "Use another length"
    return f"{lengths}, or change {', '.join(named)}." if named else f"{lengths}."


def _dividing_lengths(length: int) -> tuple[int, ...]:
    """Return the nearest lengths that the default blocks divide."""
    size = DEFAULT_BLOCK if length > DEFAULT_BLOCK else LANES
    return tuple(
        dict.fromkeys(candidate for candidate in (length // size * size, -(-length // size) * size) if candidate)
    )
