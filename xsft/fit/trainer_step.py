"""The step of a run, in the form that the TPU compiler gets, and an estimate of its memory for a search. Pure.

source of the estimate: aot_fit.md §5: against the compiler's peak of dense models it errs by -6 to +48 %. Against the
figures of the catalogue's models with experts it errs by -12 to +41 % (tests/fit/test_trainer_step_estimate.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from msgspec.structs import replace

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.catalog.fit import minimum_gib_per_chip
from xsft.catalog.models import CatalogModel
from xsft.catalog.sizes import mesh_axes
from xsft.catalog.tpu import Slice, parse_tpu_type
from xsft.fit.alternatives import TunableRun
from xsft.fit.search import HOPELESS
from xsft.fit.step import StepToCompile, blocks_at, compiler_name, counting, target_length
from xsft.fit.verdict import Fits, Marginal, NearStep
from xsft.spec.base import Keys, Value
from xsft.spec.resolve import Run
from xsft.trainer.arguments import argument
from xsft.trainer.trainer import trainer_of

EVAL_BATCH = "eval_per_device_batch_size"
REFUSAL_S = 100.0
"""CPU seconds until the compiler refuses a step, at most. source: docs/reference/fit.md, `CPU-s` of what does not
fit."""
TUNABLE = ("per_device_batch_size", "max_target_length", "weight_dtype")
"""Keys that a search may change, and that an override may hold in place of the section `train`."""


def step_to_compile(run: Run) -> StepToCompile | None:
    """Return the step; None for a run of this machine, one without a slice, one of no valid length, or a trainer whose
    step is not compiled."""
    trainer = trainer_of(run)
    keys = trainer.trainer_keys(run)
    tokens = target_length(keys)
    if run.spec.on_this_machine or run.slice is None or tokens is None or trainer.STEP is None:
        return None
    return StepToCompile(
        topology=compiler_name(run.slice),
        num_slices=run.num_slices,
        devices_per_chip=run.slice.devices // run.slice.chips,
        arguments=_step_arguments(keys),
        tokens=tokens,
        xla_flags=tuple(run.spec.xla_flags),
        blocks=blocks_at(keys, tokens),
    )


def needed_step(file: str, run: Run) -> StepToCompile:
    """Return the run's step. Raises SpecError, fit-no-step, for a run that no TPU compiler can be asked about."""
    step = step_to_compile(run)
    if step is None:
        message = (
            f"{run.run_name} has no TPU step to compile: it runs on this machine, has no tpu or no valid length, or "
            f"its trainer ({run.spec.trainer}) is not compiled."
        )
        fix = "Give a workload with target: xpk and a TPU type that `xsft check` accepts."
        wrong = _wrong_type(run)
        raise SpecError((error("fit-no-step", "tpu", wrong or message, fix).in_file(file),))
    return step


def _wrong_type(run: Run) -> str:
    """Return what is wrong with tpu.type; empty if nothing is."""
    if run.spec.tpu is None:
        return ""
    try:
        parse_tpu_type(run.spec.tpu.type)
    except ValueError as unknown:
        return str(unknown)
    return ""


def eval_step(run: Run, step: StepToCompile) -> StepToCompile | None:
    """Return the step of the run's evaluation; None if it does not evaluate while it trains. `step`: its training's."""
    keys = trainer_of(run).trainer_keys(run)
    interval, batch = keys.get("eval_interval"), keys.get(EVAL_BATCH)
    if not isinstance(interval, int | float) or interval <= 0:
        return None
    more = (argument(EVAL_BATCH, batch),) if batch else ()
    return replace(step, kind="eval", arguments=tuple(sorted((*step.arguments, *more))))


def tunable_run(run: Run) -> TunableRun | None:
    """Return the settings of the run that a search may change; None for a run without a step to compile."""
    keys, step = trainer_of(run).trainer_keys(run), step_to_compile(run)
    if step is None or run.slice is None:
        return None
    overrides, model = run.spec.overrides.maxtext, run.model
    return TunableRun(
        tpu=run.slice,
        num_slices=run.num_slices,
        batch=run.spec.train.per_device_batch_size,
        tokens=step.tokens,
        ici={str(axis): size for axis, size in run.spec.parallelism.ici.items()},
        dcn={str(axis): size for axis, size in run.spec.parallelism.dcn.items()},
        remat=str(keys.get("remat_policy", "full")),
        offloaded=keys.get("decoder_layer_input") == "offload",
        moments=str(keys.get("mu_dtype") or ""),
        weights=str(keys.get("weight_dtype") or "float32"),
        optimizer=str(keys.get("opt_type") or "adamw"),
        lora=run.spec.lora is not None,
        flash=keys.get("attention") == "flash",
        model=None if keys.get("override_model_config") else model,
        paths={key: f"overrides.maxtext.{key}" if key in overrides else f"train.{key}" for key in TUNABLE},
    )


def estimate(run: Run) -> float:
    """Return the estimated memory of the run's step as a share of the chip's; 0 if there is no estimate."""
    keys, tuned = trainer_of(run).trainer_keys(run), tunable_run(run)
    if tuned is None or tuned.model is None or not tuned.tpu.hbm_gib:
        return 0.0
    gib = estimated_gib(
        model=tuned.model,
        tpu=tuned.tpu,
        num_slices=tuned.num_slices,
        keys=keys,
        batch=tuned.batch,
        tokens=tuned.tokens,
    )
    return gib / tuned.tpu.hbm_gib


def known_seconds(run: Run, step: StepToCompile, compiled: Iterable[NearStep]) -> float | None:
    """Return the CPU seconds of the nearest accepted step; for a run far above the chip, those of a refusal; None if
    neither is known."""
    timed = [
        step_near
        for step_near in compiled
        if step_near.entry.cpu_s and isinstance(step_near.entry.verdict, Fits | Marginal)
    ]
    if timed and (tpu := run.slice):
        nearest = min(timed, key=lambda step_near: step_near.distance(tpu, run.num_slices, step.tokens))
        return nearest.entry.cpu_s
    return REFUSAL_S if estimate(run) > HOPELESS else None


def _step_arguments(keys: Keys) -> tuple[str, ...]:
    return tuple(argument(key, cast("Value", value)) for key, value in counting(keys).items())


GIB = 2**30

ROUTED_BYTES = 8
"""Bytes for each routed token and embedding dimension: four buffers in bfloat16. source: deepseek3-671b compiled with a
ragged_buffer_factor of 1.25 and of -1, aot_fit.md §0.1: 6.8 GiB apart.
"""


def estimated_gib(
    *, model: CatalogModel, tpu: Slice, num_slices: int, keys: Mapping[str, object], batch: float, tokens: int
) -> float:
    """Return GiB per chip: state, saved layer inputs, logits and head in float32, one gathered layer in bfloat16 with
    its gradient, and one layer's routed tokens. `batch`: sequences per device."""
    if model.params_b is None:
        return 0.0
    state = minimum_gib_per_chip(params_b=model.params_b, run=tpu, num_slices=num_slices, keys=keys)
    sequences = batch * tpu.devices / tpu.chips
    offloaded = keys.get("decoder_layer_input") == "offload"
    inputs = 0 if offloaded else 2 * model.layers * sequences * tokens * model.emb
    logits = 4 * sequences * tokens * model.vocab + 4 * model.vocab * model.emb
    tensor, expert = _tensor_and_expert_axes(tpu, keys)
    gathered = 4 * _gathered_layer(model, tensor=tensor, expert=expert)
    routed = ROUTED_BYTES * model.emb * sequences * tokens * _routed_share(model, keys, expert=expert)
    return state + (inputs + logits + gathered + routed) / GIB


def _tensor_and_expert_axes(tpu: Slice, keys: Mapping[str, object]) -> tuple[int, int]:
    """Return the tensor and the expert axis of a slice."""
    axes = mesh_axes(keys, "ici", total=tpu.devices)
    return max(1, axes.get("tensor", 1)), max(1, axes.get("expert", 1))


def _gathered_layer(model: CatalogModel, *, tensor: int, expert: int) -> float:
    """Return the parameters of one layer that a chip gathers: fsdp is gathered, expert and tensor axes are not."""
    experts = 3.0 * model.experts * model.emb * model.moe_dim
    layer_size = (model.params_b or 0.0) * 1e9 / max(1, model.layers)
    return (min(experts, layer_size) / expert + max(0.0, layer_size - experts)) / tensor


def _routed_share(model: CatalogModel, keys: Mapping[str, object], *, expert: int) -> float:
    """Return for how many copies of each of its tokens a chip has room; 0 for a dense model. With an expert axis there
    is room for the worst case, unless ragged_buffer_factor limits it.

    source: maxtext@0.2.5 layers/moe.py, get_ragged_buffer_size
    """
    if not model.moe:
        return 0.0
    factor, chosen = float(str(keys.get("ragged_buffer_factor", -1))), model.experts_per_token
    return chosen * (factor if factor > 0 and expert > 1 else min(expert, model.experts / chosen))
