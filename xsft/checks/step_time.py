"""The least time that a run's steps can take, and whether a step can be built and fit, by arithmetic alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from xsft.base.problems import errors_in
from xsft.catalog.fit import PublishedStep, minimum_gib_per_chip, published_steps
from xsft.catalog.models import CatalogModel
from xsft.catalog.models import model as catalog_model
from xsft.catalog.tpu import Slice, parse_tpu_type
from xsft.checks import lora, mesh
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number
from xsft.fit.step import target_length
from xsft.fit.translate import InvalidStep
from xsft.fit.verdict import DoesNotFit, Invalid, Verdict
from xsft.records.record import MeasuredPace
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

HOUR_S = 3600.0
TERA = 1e12


class RunTime(Struct, frozen=True, kw_only=True):
    """The least time of a run's steps, and the ratio of real runs to their least times."""

    step_s: float
    """Seconds of the model's matrix multiplications in one step, at the chips' full rate."""
    tokens: float
    """Per device and step, padding included."""
    steps: int
    chips: int
    price: float | None
    """Price of one chip-hour, in the place's currency."""
    ratios: tuple[float, ...]
    """Measured time over the least one; ascending. Empty if the step is shorter than those of all published runs:
    latency and communication then decide, and arithmetic counts neither.
    """
    own: bool
    """Whether the ratios are of the user's own runs of this model on this TPU type, not of published ones."""

    @property
    def seconds(self) -> float:
        """Return the least seconds of all steps, without starting, compiling, evaluating and saving."""
        return self.step_s * self.steps

    @property
    def tokens_per_second(self) -> float:
        """Return the tokens per second and device, at most."""
        return self.tokens / self.step_s

    @property
    def chip_hours(self) -> float:
        return self.seconds * self.chips / HOUR_S

    @property
    def cost(self) -> float | None:
        return None if self.price is None else self.chip_hours * self.price


def run_time(run: Run, *, paces: Sequence[MeasuredPace] = ()) -> RunTime | None:
    """Return the least time of a run on TPUs; None for one whose model or TPU is not in the catalogue.

    `paces`: of the user's own runs of this model on this TPU type.
    """
    keys = trainer_of(run).trainer_keys(run)
    # the tokens that a device computes in a step
    length = target_length(keys)
    batch = number(keys.get("per_device_batch_size")) or 1.0
    accumulated = number(keys.get("gradient_accumulation_steps")) or 1.0
    tokens = None if length is None else length * batch * accumulated
    if run.spec.on_this_machine or run.slice is None or tokens is None or trainer_of(run).STEP is None:
        return None
    if run.model is None or is_on(keys.get("override_model_config")):
        return None
    step_s = least_step_s(run.model, run.slice, tokens=tokens, adapters=run.spec.lora is not None)
    if step_s is None:
        return None
    # earlier versions recorded some bounds of compiled programs, to which these are not comparable
    own_ratios = tuple(sorted(pace.ratio for pace in paces if not pace.compiled))
    return RunTime(
        step_s=step_s,
        tokens=tokens,
        steps=run.spec.train.steps,
        chips=run.chips,
        price=run.place.chip_hour_price if run.place else None,
        ratios=own_ratios or _published_ratios(step_s),
        own=bool(own_ratios),
    )


def least_step_s(model: CatalogModel, tpu: Slice, *, tokens: float, adapters: bool) -> float | None:
    """Return the seconds of the matrix multiplications with the model's weights, at least: two per weight and token
    forwards, four backwards, two of these without gradients of the weights. Attention and rematerialisation come on
    top. None for a model or a TPU of unknown size. `tokens`: per device.
    """
    table = 0 if model.tied else model.vocab * model.emb
    weights = max(0.0, (model.active_b or 0.0) * 1e9 - table)
    if tpu.device_tflops is None or not weights:
        return None
    per_token = 6.0
    if adapters:
        per_token = 4.0
    return per_token * weights * tokens / (tpu.device_tflops * TERA)


def _published_ratios(step_s: float) -> tuple[float, ...]:
    """Return the ratios of published runs; none for a step that is shorter than all of theirs."""
    pairs = [(published.step_s, published_step_s(published)) for published in published_steps()]
    if step_s < min(minimum_s for _, minimum_s in pairs):
        return ()
    return tuple(sorted(measured / minimum_s for measured, minimum_s in pairs))


def published_step_s(published: PublishedStep) -> float:
    """Return the least seconds of a published run's step. Raises LookupError for one whose size is unknown."""
    tpu = parse_tpu_type(published.tpu_type)
    minimum_s = least_step_s(catalog_model(published.model), tpu, tokens=published.tokens, adapters=False)
    if minimum_s is None:
        raise LookupError(f"{published.id}: the size of its model or TPU is unknown")
    return minimum_s


def analytic_verdict(run: Run) -> Verdict | None:
    """Return NO or INVALID if arithmetic alone decides; None if the compiler must be asked."""
    keys = trainer_of(run).trainer_keys(run)
    for problem in errors_in((*mesh.check_mesh(run, keys, Facts()), *lora.check_lora(run, keys, Facts()))):
        return Invalid(because=InvalidStep(where=problem.where, message=problem.message, fix=problem.fix))
    if run.model is None or run.slice is None or run.model.params_b is None or run.slice.hbm_gib is None:
        return None
    if keys.get("override_model_config") or keys.get("lora.lora_weight_qtype"):
        return None
    need = minimum_gib_per_chip(params_b=run.model.params_b, run=run.slice, num_slices=run.num_slices, keys=keys)
    if need <= run.slice.hbm_gib:
        return None
    return DoesNotFit(needed_gib=round(need, 2), limit_gib=run.slice.hbm_gib, told_by="bound")
