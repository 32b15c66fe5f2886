"""The shortest time that a run's steps can take, and its cost, before the run starts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from msgspec import Struct

from xsft.catalog.models import CatalogModel
from xsft.catalog.models import model as catalog_model
from xsft.catalog.tpu import parse_tpu_type
from xsft.checks.values import is_on, number
from xsft.fit.derive import KnownStep
from xsft.fit.published import PublishedStep, published_steps
from xsft.fit.roofline import StepBound, arithmetic_bound, compiled_bound
from xsft.fit.step import target_length
from xsft.records.record import MeasuredPace
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

HOUR_S = 3600.0


class RunTime(Struct, frozen=True, kw_only=True):
    """The least time of a run's steps, and the ratio of real runs to their bounds."""

    bound: StepBound
    steps: int
    chips: int
    price: float | None
    """Price of one chip-hour, in the place's currency."""
    ratios: tuple[float, ...]
    """Measured time over its bound, of runs with a bound of the same kind; ascending. Empty if the step is shorter than
    those of all published runs: latency and communication then decide, and this bound counts neither.
    """
    own: bool
    """Whether the ratios are of the user's own runs of this model on this TPU type, not of published ones."""

    @property
    def seconds(self) -> float:
        """Return the least seconds of all steps, without starting, compiling, evaluating and saving."""
        return self.bound.seconds * self.steps

    @property
    def chip_hours(self) -> float:
        return self.seconds * self.chips / HOUR_S

    @property
    def cost(self) -> float | None:
        return None if self.price is None else self.chip_hours * self.price


def run_time(run: Run, *, fit: KnownStep | None, paces: Sequence[MeasuredPace] = ()) -> RunTime | None:
    """Return the least time of a run on TPUs; None for one whose model or TPU is not in the catalogue.

    `fit`: the run's compiled step; without it, or with one of another length, only the model's matrix multiplications
    are counted. `paces`: of the user's own runs of this model on this TPU type.
    """
    keys = trainer_of(run).trainer_keys(run)
    bound = _step_bound(run, keys, fit)
    if bound is None:
        return None
    price = run.place.chip_hour_price if run.place else None
    own = tuple(sorted(one.ratio for one in paces if one.compiled == bound.compiled))
    steps, ratios = run.spec.train.steps, own or _ratios(bound)
    return RunTime(bound=bound, steps=steps, chips=run.chips, price=price, ratios=ratios, own=bool(own))


def _step_bound(run: Run, keys: Mapping[str, Value], fit: KnownStep | None) -> StepBound | None:
    tokens = _tokens_per_device(keys)
    if run.spec.on_this_machine or run.slice is None or tokens is None or trainer_of(run).STEP is None:
        return None
    if fit is not None and not fit.derived and fit.entry.work is not None:
        return compiled_bound(fit.entry.work, tpu=run.slice, tokens=tokens)
    if run.model is None or is_on(keys.get("override_model_config", False)):
        return None
    flops = model_flops(run.model, tokens=tokens, adapters=run.spec.lora is not None)
    return arithmetic_bound(flops=flops, tpu=run.slice, tokens=tokens)


def model_flops(model: CatalogModel, *, tokens: float, adapters: bool = False) -> float:
    """Return the FLOPs of the model's matrix multiplications with weights, at least: two per weight and token forwards,
    four backwards, two of these without gradients of the weights. Attention and rematerialisation come on top; 0 for a
    model of unknown size.
    """
    table = 0 if model.tied else model.vocab * model.emb
    weights = max(0.0, (model.active_b or 0.0) * 1e9 - table)
    return (4.0 if adapters else 6.0) * weights * tokens


def _tokens_per_device(keys: Mapping[str, Value]) -> float | None:
    """Return the tokens that a device computes in a step."""
    length, batch = target_length(keys), number(keys.get("per_device_batch_size")) or 1.0
    accumulated = number(keys.get("gradient_accumulation_steps")) or 1.0
    return None if length is None else length * batch * accumulated


def _ratios(bound: StepBound) -> tuple[float, ...]:
    bounds = ((one, published_bound(one, compiled=bound.compiled)) for one in published_steps())
    pairs = [(one.step_s, found.seconds) for one, found in bounds if found]
    if bound.seconds < min((least for _, least in pairs), default=inf):
        return ()
    return tuple(sorted(measured / least for measured, least in pairs))


def published_bound(one: PublishedStep, *, compiled: bool) -> StepBound | None:
    """Return the bound of a published run, by its compiled step or by its model's FLOPs; None if these are unknown."""
    tpu = parse_tpu_type(one.tpu_type)
    if compiled:
        return compiled_bound(one.work, tpu=tpu, tokens=one.tokens) if one.work else None
    return arithmetic_bound(flops=model_flops(catalog_model(one.model), tokens=one.tokens), tpu=tpu, tokens=one.tokens)
