"""Memory on the chip: the TPU compiler's verdicts for compiled runs, and a lower bound for all others. Step times that
others measured and published. Pure.

source: ahead-of-time compilation on v6e, see fit.toml. The bound leaves out activations, so it can reject a run but
never accept one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from xsft.catalog.data import toml
from xsft.catalog.sizes import mesh_axes
from xsft.catalog.tpu import Slice, parse_tpu_type

GIB = 2**30
FitOutcome = Literal["fits", "marginal", "no"]

COUNTING_KEYS: Mapping[str, object] = {
    "allow_split_physical_axes": False,
    "attention": "autoselected",
    "capacity_factor": -1.0,
    "decoder_layer_input": "device",
    "dtype": "bfloat16",
    "grad_dtype": "float32",
    "gradient_accumulation_steps": 1,
    "megablox": True,
    "mu_dtype": "",
    "num_moe_token_chunks": 1,
    "num_vocab_tiling": 1,
    "opt_type": "adamw",
    "optimizer_memory_host_offload": False,
    "param_scan_axis": 1,
    "parameter_memory_host_offload": False,
    "per_device_batch_size": 12.0,
    "quantization": "",
    "ragged_buffer_factor": -1.0,
    "remat_policy": "full",
    "scan_layers": True,
    "sparse_matmul": True,
    "use_iota_embed": False,
    "use_ring_of_experts": False,
    "use_qwix_quantization": False,
    "weight_dtype": "float32",
    "lora.enable_lora": False,
    "lora.lora_rank": 0,
    "lora.lora_module_path": "",
    "lora.lora_weight_qtype": None,
    "lora.lora_tile_size": None,
}
"""MaxText keys that change memory, with their defaults: a verdict applies only if all of them are equal, and all
`*_parallelism` and `custom_mesh*` keys. source: maxtext@0.2.5 maxtext/configs/base.yml, compared by
tests/catalog/test_fit.py.
"""

TOKENS = "max_target_length"
DEFAULT_TOKENS = 2048
"""MaxText's default max_target_length. source: maxtext@0.2.5 maxtext/configs/base.yml"""

DEFAULT_BLOCK = 512
"""Tokens of the attention's blocks; a shorter sequence has shorter ones. source: maxtext@0.2.5 configs/base.yml"""

ALSO_COUNTING = ("custom_mesh", "sa_", "lora.lora_weight")
"""Prefixes of other keys that change memory; no compiled run sets them."""


class CompilerVerdict(Struct, frozen=True, kw_only=True):
    """The compiler's verdict on one run."""

    id: str
    """Id of the row in fit.toml."""
    tpu_type: str
    num_slices: int
    what: str
    outcome: FitOutcome
    peak_gib: float | None
    """Peak in GiB per chip; for a rejected program, the amount it would have needed."""
    sum_gib: float | None
    """GiB per chip of arguments, outputs and temporaries together; None for a rejected program."""
    limit_gib: float
    maxtext: str
    """The MaxText release whose step was compiled."""
    step: Literal["sft", "pretrain"]
    """The compiled step; for full fine-tuning the two differ by 1 %."""
    tokens: int
    """max_target_length of the compiled run."""
    note: str
    cpu_s: float
    """CPU seconds that it took; 0 if they were not recorded."""


def known_verdict(*, model: str, tpu_type: str, num_slices: int, keys: Mapping[str, object]) -> CompilerVerdict | None:
    """Return the verdict on this run, or one that follows from a run that differs only in its tokens; else None.

    A run that fits with more tokens fits with fewer; one that does not fit with fewer does not fit with more.

    `keys` are MaxText's, nested ones as `lora.lora_rank`; absent keys have their defaults. Axes of -1 are resolved
    first, so `dcn_fsdp_parallelism=2` on two slices equals the same with `dcn_data_parallelism=1`. Raises ValueError
    for an unknown tpu_type.
    """
    run, tokens = parse_tpu_type(tpu_type), _token_limit(keys)
    memory_keys = _memory_keys(keys, run, num_slices)
    verdicts = (
        _verdict(row)
        for row in _fit_rows()
        if row["model"] == model and row["slices"] == num_slices and parse_tpu_type(row["tpu"]) == run
        if _memory_keys(row_keys(row), run, num_slices) == memory_keys
    )
    telling = [verdict for verdict in verdicts if _covers_length(verdict, tokens)]
    return min(telling, key=lambda verdict: abs(verdict.tokens - tokens), default=None)


def compiled_on_default_mesh(*, model: str, keys: Mapping[str, object]) -> tuple[CompilerVerdict, ...]:
    """Return the verdicts on runs that differ only in their slice, its mesh and their tokens; fewest chips first."""
    verdicts = [
        _verdict(row)
        for row in _fit_rows()
        if row["model"] == model and _off_mesh(row_keys(row)) == _off_mesh(keys)
        if not any(map(_is_axis, row_keys(row)))
    ]
    return tuple(sorted(verdicts, key=lambda verdict: parse_tpu_type(verdict.tpu_type).chips * verdict.num_slices))


def has_default_mesh(keys: Mapping[str, object]) -> bool:
    return not any(map(_is_axis, keys))


def minimum_gib_per_chip(*, params_b: float, run: Slice, num_slices: int, keys: Mapping[str, object]) -> float:
    """Return the GiB per chip that weights, optimizer state and gradients need at least: bytes × P / N, without
    activations.

    N is the number of chips that share one copy of the state: all of them, except across the data axes. source:
    aot_fit.md §0.1 "Lower bounds" and §5; it under-estimates the compiler's peak by 11 to 93 %.
    """
    sharing = chips_sharing(run=run, num_slices=num_slices, keys=keys)
    return params_b * 1e9 * bytes_per_parameter(keys) / sharing / GIB


def bytes_per_parameter(keys: Mapping[str, object]) -> float:
    """Return the bytes of state per parameter during the step.

    AdamW: weight + two moments + gradient, 16 in float32, 14 with mu_dtype=bfloat16, 8 in bfloat16. SGD: weight +
    gradient. Muon: weight + one moment + gradient. LoRA: the frozen weights, twice, since the trainer does not donate
    them; with a quantised base, four bits. With some parameters frozen by a mask only the weights are certain.
    """
    weight = _width(keys.get("weight_dtype") or "float32")
    if _normal(keys.get("lora.enable_lora")) is True:
        return 0.5 if keys.get("lora.lora_weight_qtype") else 2 * weight
    if keys.get("trainable_parameters_mask"):
        return weight
    moment = _width(keys.get("mu_dtype") or keys.get("weight_dtype") or "float32")
    moments = {"sgd": 0.0, "muon": moment, "adam_pax": 2 * weight}
    return weight + moments.get(str(keys.get("opt_type", "adamw")), moment + weight) + weight


def chips_sharing(*, run: Slice, num_slices: int, keys: Mapping[str, object]) -> int:
    """Return the number of chips that share one copy of the state; slices share it only over DCN axes such as
    dcn_fsdp_parallelism.
    """
    ici, dcn = mesh_axes(keys, "ici", total=run.devices), mesh_axes(keys, "dcn", total=num_slices)
    copies = max(1, ici.get("data", 1)) * max(1, dcn.get("data", 1))
    return max(1, run.chips * num_slices // copies)


def _verdict(row: Mapping[str, Any]) -> CompilerVerdict:
    return CompilerVerdict(
        id=row["id"],
        tpu_type=row["tpu"],
        num_slices=row["slices"],
        what=row["what"],
        outcome=row["verdict"],
        peak_gib=row.get("peak"),
        sum_gib=row.get("sum"),
        limit_gib=toml("fit.toml")["limit_gib"],
        maxtext=toml("fit.toml")["maxtext"],
        step=row.get("step", "sft"),
        tokens=int(_token_limit(row_keys(row))),
        note=row.get("note", ""),
        cpu_s=row.get("cpu_s", 0.0),
    )


@cache
def _fit_rows() -> tuple[dict[str, Any], ...]:
    return tuple(toml("fit.toml")["rows"])


def row_keys(row: Mapping[str, Any]) -> dict[str, object]:
    """Return the MaxText keys of a row of fit.toml."""
    sets = toml("fit.toml")["sets"]
    named: dict[str, object] = {key: value for name in row["sets"] for key, value in sets[name].items()}
    return {**named, **row.get("keys", {})}


def _memory_keys(keys: Mapping[str, object], run: Slice, num_slices: int) -> dict[str, object]:
    """Return the keys that change memory, without the tokens: normalised, with defaults, the mesh resolved, axes of 1
    omitted.
    """
    totals = {"ici": run.devices, "dcn": num_slices}
    axes = {
        f"{group}_{axis}": size
        for group in totals
        for axis, size in mesh_axes(keys, group, total=totals[group]).items()
    }
    return _off_mesh(keys) | {axis: size for axis, size in axes.items() if size != 1}


def _off_mesh(keys: Mapping[str, object]) -> dict[str, object]:
    others = {key: value for key, value in keys.items() if key.startswith(ALSO_COUNTING)}
    values = {**others, **{key: keys.get(key, default) for key, default in COUNTING_KEYS.items()}}
    return {key: _normal(value) for key, value in values.items() if value not in (None, "")}


def _token_limit(keys: Mapping[str, object]) -> float:
    """Return max_target_length; NaN for an invalid value, so that every comparison is false."""
    value = _normal(keys.get(TOKENS, DEFAULT_TOKENS))
    return value if isinstance(value, float) else math.nan


def _covers_length(verdict: CompilerVerdict, tokens: float) -> bool:
    """Return whether a verdict on a run that differs only in its tokens, with the same blocks, applies to `tokens`."""
    if tokens != verdict.tokens and min(tokens, verdict.tokens) < DEFAULT_BLOCK:
        return False
    if verdict.outcome == "fits" and tokens < verdict.tokens:
        return True
    return tokens == verdict.tokens or (verdict.outcome == "no" and tokens > verdict.tokens)


def _is_axis(key: str) -> bool:
    return key.endswith("_parallelism")


def _width(dtype: object) -> float:
    return {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}.get(str(dtype), 1.0)


def _normal(value: object) -> object:
    """Normalise a value. MaxText reads its command line as YAML: `True`, `true` and True are equal, and so are 1 and
    1.0.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        lowered = value.lower()
        return {"true": True, "false": False}.get(lowered, value)
    return float(value) if isinstance(value, int) else value


class PublishedStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published run; published.toml names the source."""

    id: str
    model: str
    tpu_type: str
    num_slices: int
    tokens: int
    """Per device and step."""
    step_s: float
    """Measured, seconds."""
    source: str


@cache
def published_steps() -> tuple[PublishedStep, ...]:
    """Return all of them. They are not made by `msgspec.convert`: it crashes when two threads first need one type."""
    return tuple(PublishedStep(**row) for row in toml("published.toml")["runs"])
