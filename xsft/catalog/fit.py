"""Does it fit? Verdicts of the real TPU compiler for runs that were compiled, and a lower bound for all others. Pure.

source: ahead-of-time compilation on v6e, see fit.toml. The bound rejects; it never accepts: it leaves out activations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from xsft.catalog.data import toml
from xsft.catalog.tpu import Slice, parse_tpu_type

GIB = 2**30
Outcome = Literal["fits", "marginal", "no"]

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
"""Keys that change memory, with their defaults: a verdict holds only where all are equal. So do all `*_parallelism` and
`custom_mesh*` keys. source: maxtext@0.2.5 maxtext/configs/base.yml, compared by tests/catalog/test_fit.py."""

TOKENS = "max_target_length"
DEFAULT_TOKENS = 2048
"""A run with fewer tokens takes less memory. source: maxtext@0.2.5 maxtext/configs/base.yml"""

ALSO_COUNTING = ("custom_mesh", "sa_", "lora.lora_weight")
"""Prefixes of further keys that change memory and that no compiled run has set."""


class CompilerVerdict(Struct, frozen=True, kw_only=True):
    """What the compiler said about one run."""

    id: str
    """Row of fit.toml."""
    what: str
    outcome: Outcome
    peak_gib: float | None
    """GiB per chip at the peak; above the limit it is what the refused program would have needed."""
    sum_gib: float | None
    """GiB per chip of arguments, outputs and temporaries together; None for a refused program."""
    limit_gib: float
    step: Literal["sft", "pretrain"]
    """Which step was compiled; for full fine-tuning the two differ by 1 %."""
    tokens: int
    """max_target_length of the run that was compiled."""
    note: str


class CompiledPlace(Struct, frozen=True, kw_only=True):
    """Where the compiler accepted a run with the default mesh."""

    id: str
    """Row of fit.toml."""
    tpu_type: str
    num_slices: int


def known_verdict(*, model: str, tpu_type: str, num_slices: int, keys: Mapping[str, object]) -> CompilerVerdict | None:
    """The verdict for exactly this run, else what follows from one that differs in its tokens only; None where nobody
    has compiled either. What fits with more tokens fits with fewer; what does not fit with fewer does not with more.

    `keys` are MaxText's, nested ones as `lora.lora_rank`; those that are absent count as their defaults. An axis of -1
    is resolved first, so `dcn_fsdp_parallelism=2` on two slices equals the same with `dcn_data_parallelism=1`.
    Raises ValueError for an unknown tpu_type.
    """
    run, tokens = parse_tpu_type(tpu_type), _tokens(keys)
    wanted = _counting(keys, run, num_slices)
    found = (
        _verdict(row)
        for row in _rows()
        if row["model"] == model and row["slices"] == num_slices and parse_tpu_type(row["tpu"]) == run
        if _counting(_row_keys(row), run, num_slices) == wanted
    )
    telling = [verdict for verdict in found if _tells(verdict, tokens)]
    return min(telling, key=lambda verdict: abs(verdict.tokens - tokens), default=None)


def places_where_it_fits(*, model: str, keys: Mapping[str, object]) -> tuple[CompiledPlace, ...]:
    """Where the compiler accepted this run on the default mesh, with as many tokens or more; the fewest chips first."""
    found = [
        CompiledPlace(id=row["id"], tpu_type=row["tpu"], num_slices=row["slices"])
        for row in _rows()
        if row["model"] == model and row["verdict"] == "fits" and _tokens(_row_keys(row)) >= _tokens(keys)
        if _off_mesh(_row_keys(row)) == _off_mesh(keys) and not any(map(_is_axis, _row_keys(row)))
    ]
    return tuple(sorted(found, key=lambda place: parse_tpu_type(place.tpu_type).chips * place.num_slices))


def minimum_gib_per_chip(*, params_b: float, run: Slice, num_slices: int, keys: Mapping[str, object]) -> float:
    """GiB per chip that weights, optimizer state and gradients need at least: bytes × P / N, without any activation.

    N is the number of chips that share one copy of the state: all of them, except across the data axes.
    source: aot_fit.md §0.1 "Lower bounds" and §5; it under-estimates the compiler's peak by 11 to 93 %.
    """
    sharing = chips_sharing(run=run, num_slices=num_slices, keys=keys)
    return params_b * 1e9 * bytes_per_parameter(keys) / sharing / GIB


def bytes_per_parameter(keys: Mapping[str, object]) -> float:
    """Bytes of state per parameter during the step.

    AdamW: weight + two moments + gradient, 16 in float32, 14 with mu_dtype=bfloat16, 8 in bfloat16.
    SGD: weight + gradient. Muon: weight + one moment + gradient.
    LoRA: the frozen weights, twice, since the trainer does not donate them; with a quantised base, four bits.
    With some parameters frozen by a mask only the weights are certain.
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
    """Chips that share one copy of the state; more slices help only where dcn_fsdp_parallelism or the like says so."""
    axes = _axes(keys, run, num_slices)
    copies = max(1, axes["ici_data_parallelism"]) * max(1, axes["dcn_data_parallelism"])
    return max(1, run.chips * num_slices // copies)


def _verdict(row: Mapping[str, Any]) -> CompilerVerdict:
    return CompilerVerdict(
        id=row["id"],
        what=row["what"],
        outcome=row["verdict"],
        peak_gib=row.get("peak"),
        sum_gib=row.get("sum"),
        limit_gib=toml("fit.toml")["limit_gib"],
        step=row.get("step", "sft"),
        tokens=int(_tokens(_row_keys(row))),
        note=row.get("note", ""),
    )


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    return tuple(toml("fit.toml")["rows"])


def _row_keys(row: Mapping[str, Any]) -> dict[str, object]:
    sets = toml("fit.toml")["sets"]
    named: dict[str, object] = {key: value for name in row["sets"] for key, value in sets[name].items()}
    return {**named, **row.get("keys", {})}


def _counting(keys: Mapping[str, object], run: Slice, num_slices: int) -> dict[str, object]:
    """The keys that change memory, but for the tokens: normalised, defaults filled in, the mesh resolved, axes of 1
    left out.
    """
    return _off_mesh(keys) | {axis: size for axis, size in _axes(keys, run, num_slices).items() if size != 1}


def _off_mesh(keys: Mapping[str, object]) -> dict[str, object]:
    others = {key: value for key, value in keys.items() if key.startswith(ALSO_COUNTING)}
    values = {**others, **{key: keys.get(key, default) for key, default in COUNTING_KEYS.items()}}
    return {key: _normal(value) for key, value in values.items() if value not in (None, "")}


def _tokens(keys: Mapping[str, object]) -> float:
    """Not a number where what is given is none: no comparison with it holds."""
    value = _normal(keys.get(TOKENS, DEFAULT_TOKENS))
    return value if isinstance(value, float) else math.nan


def _tells(verdict: CompilerVerdict, tokens: float) -> bool:
    """Whether a verdict on a run that differs in its tokens only holds for `tokens`, too."""
    if verdict.outcome == "fits" and tokens < verdict.tokens:
        return True
    return tokens == verdict.tokens or (verdict.outcome == "no" and tokens > verdict.tokens)


def _axes(keys: Mapping[str, object], run: Slice, num_slices: int) -> dict[str, int]:
    """Mesh axes with -1 resolved, as MaxText does. source: maxtext@0.2.5 max_utils.fill_unspecified_mesh_axes."""
    sizes = {"dcn_data_parallelism": -1, "ici_fsdp_parallelism": -1, "ici_data_parallelism": 1}
    sizes |= {key: _whole(value) for key, value in keys.items() if _is_axis(key)}
    return _filled(sizes, prefix="dcn_", total=num_slices) | _filled(sizes, prefix="ici_", total=run.devices)


def _filled(sizes: Mapping[str, int], *, prefix: str, total: int) -> dict[str, int]:
    group = {key: size for key, size in sizes.items() if key.startswith(prefix)}
    rest = total // max(1, math.prod(size for size in group.values() if size > 0))
    return {key: rest if size == -1 else size for key, size in group.items()}


def _is_axis(key: str) -> bool:
    return key.endswith("_parallelism")


def _whole(value: object) -> int:
    """An axis as a number; what is no number counts as 1, and another check refuses it."""
    try:
        return int(str(value))
    except ValueError:
        return 1


def _width(dtype: object) -> float:
    return {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}.get(str(dtype), 1.0)


def _normal(value: object) -> object:
    """MaxText reads its command line as YAML: `True`, `true` and True are one value, and so are 1 and 1.0."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        lowered = value.lower()
        return {"true": True, "false": False}.get(lowered, value)
    return float(value) if isinstance(value, int) else value
