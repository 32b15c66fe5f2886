"""The step that is compiled: what it depends on, and the digests under which its verdict is kept. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from xsft.catalog.fit import COUNTING_KEYS, DEFAULT_BLOCK, DEFAULT_TOKENS, TOKENS
from xsft.catalog.tpu import Slice

NOT_COUNTING = frozenset(
    {
        "add_bos", "add_eos", "async_checkpointing", "base_output_directory", "chat_template", "chat_template_path",
        "checkpoint_period", "checkpoint_storage_use_ocdbt", "checkpoint_storage_use_zarr3", "data_shuffle_seed",
        "dataset_type", "enable_checkpointing", "enable_data_shuffling", "enable_goodput_recording",
        "enable_single_controller", "eval_data_columns", "eval_interval", "eval_per_device_batch_size", "eval_steps",
        "formatting_func_path", "gcs_metrics", "hf_access_token", "hf_data_dir", "hf_eval_files", "hf_eval_split",
        "hf_name", "hf_path", "hf_train_files", "learning_rate", "load_parameters_path", "log_config", "log_period",
        "lora.lora_restore_path", "num_epoch", "profiler", "run_name", "sft_train_on_completion_only", "steps",
        "jax_cache_dir", "tokenizer_path", "tokenizer_type", "train_data_columns", "train_split",
        "warmup_steps_fraction",
    }
)  # fmt: skip
"""MaxText keys that neither change the compiled step's memory nor its shapes: names, data, checkpoints, rates. Every
other key counts, known or not. source: maxtext@0.2.5 train_sft.py and what it calls; a test compiles none of them.
"""

NOT_COUNTING_PREFIXES = ("formatting_func_kwargs.", "grain_", "profiler_", "colocated_python_")

COMPILER_NAMES = {"v5litepod": "v5e"}
"""xpk's generations that MaxText names otherwise. source: maxtext@0.2.5 utils/accelerator_to_spec_map.py"""

BLOCKS = tuple(
    f"sa_block_{name}" for name in ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute", "q_dq", "kv_dq")
)
"""Keys of splash attention's blocks. source: maxtext@0.2.5 configs/base.yml"""
SHORTEST_FLASH = 128
"""From this length on attention=autoselected is flash. source: maxtext@0.2.5 layers/attention_op.py"""


StepKind = Literal["train", "eval"]


class StepToCompile(Struct, frozen=True, kw_only=True):
    """Everything that decides the memory of a run's step."""

    kind: StepKind = "train"

    topology: str
    """The slice by MaxText's name, `v6e-256`."""
    num_slices: int
    devices_per_chip: int
    arguments: tuple[str, ...]
    """MaxText's keys that count, `key=value`, sorted; without max_target_length."""
    tokens: int
    """max_target_length."""
    xla_flags: tuple[str, ...] = ()
    blocks: tuple[int, ...] = ()
    """Sizes of the attention's blocks at that length; steps with other blocks are not compared."""

    @property
    def family(self) -> str:
        """Return the digest of all but the tokens, 64 hex digits: steps of one family differ only in their length."""
        parts = (self.topology, self.num_slices, self.devices_per_chip, self.arguments, self.xla_flags, self.blocks)
        named = parts if self.kind == "train" else (*parts, self.kind)
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def counting(keys: Mapping[str, object]) -> dict[str, object]:
    """Return the keys that decide the step, without the tokens and without those that have their default."""
    return {
        key: value
        for key, value in sorted(keys.items())
        if key not in NOT_COUNTING and not key.startswith(NOT_COUNTING_PREFIXES) and key != TOKENS
        if COUNTING_KEYS.get(key, _UNSET) != value
    }


def target_length(keys: Mapping[str, object]) -> int | None:
    """Return max_target_length; None for an invalid value."""
    value = keys.get(TOKENS, DEFAULT_TOKENS)
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return None


def blocks_at(keys: Mapping[str, object], tokens: int) -> tuple[int, ...]:
    """Return the sizes of the attention's blocks: none is longer than the sequence."""
    sizes = (target_length({TOKENS: keys.get(name, DEFAULT_BLOCK)}) or DEFAULT_BLOCK for name in BLOCKS)
    flash = tokens >= SHORTEST_FLASH
    return tuple(min(size, tokens) for size in sizes) if flash else (0,)


def compiler_name(run: Slice) -> str:
    """Return MaxText's name of the slice, `v5e-256` for xpk's v5litepod-256."""
    generation, _, size = run.tpu_type.rpartition("-")
    return f"{COMPILER_NAMES.get(generation, generation)}-{size}"


_UNSET = object()
