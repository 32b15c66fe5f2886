"""The minimum time of a run, compared with published measurements of MaxText's pre-training."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from tests.stories import intent_of, spec_of, varied
from xsft.checks.step_time import published_bound, run_time
from xsft.fit.derive import KnownStep
from xsft.fit.published import PublishedStep, published_steps
from xsft.fit.verdict import CompiledStep, Fits
from xsft.fit.work import StepWork
from xsft.records.record import MeasuredPace
from xsft.verbs.plan_summary import time_text

MOST = 4.0
"""No published step took longer than this times its bound."""


COMPILED = [one for one in published_steps() if one.work]


@pytest.mark.parametrize("published", published_steps(), ids=lambda one: one.id)
def test_published_steps_are_between_the_bound_and_its_maximum_multiple(published: PublishedStep) -> None:
    bound = published_bound(published, compiled=False)
    assert bound is not None
    assert bound.seconds <= published.step_s <= MOST * bound.seconds


def test_published_runs_have_the_types_of_their_fields() -> None:
    read = msgspec.convert(msgspec.to_builtins(published_steps()), tuple[PublishedStep, ...])
    assert [one.id for one in read] == [one.id for one in published_steps()]


@pytest.mark.parametrize("published", COMPILED, ids=lambda one: one.id)
def test_compiled_bound_is_between_the_weights_bound_and_the_published_step(published: PublishedStep) -> None:
    """Which is nearer: it counts attention, rematerialisation and what the step moves."""
    bound, weights = (published_bound(published, compiled=compiled) for compiled in (True, False))
    assert bound is not None
    assert weights is not None
    assert weights.seconds < bound.seconds <= published.step_s <= MOST * bound.seconds


WORK = StepWork(flops=918e12, kernel_flops=0.0, hbm_bytes=0.0, ici_bytes=0.0, dcn_bytes=0.0, model_tflops=459.0)
STORY = spec_of("qwen3_gsm8k")


def known(*, derived: bool = False, work: StepWork | None = WORK) -> KnownStep:
    verdict = Fits(peak_gib=1.0, sum_gib=1.0, limit_gib=31.24, by=None)
    entry = CompiledStep(verdict=verdict, tokens=1024, versions={}, made_at="", work=work)
    return KnownStep(entry=entry, derived=derived)


def test_compiled_step_decides_the_time() -> None:
    time = run_time(intent_of(STORY).run, fit=known())
    assert time is not None
    assert (time.bound.compiled, time.bound.by, time.bound.seconds) == (True, "compute", 1.0)
    assert (time.steps, time.seconds, time.chip_hours) == (500, 500.0, 500 * 8 / 3600)
    assert time.ratios == (), "no published step is as short"


def test_long_compiled_step_gets_the_range_of_compiled_published_steps() -> None:
    time = run_time(intent_of(STORY).run, fit=known(work=replace(WORK, flops=9180e12)))
    assert time is not None
    assert len(time.ratios) == len(COMPILED) > 0
    assert 1 < time.ratios[0] <= time.ratios[-1] < MOST


@pytest.mark.parametrize(
    "fit",
    [None, known(derived=True), known(work=None)],
    ids=["nothing compiled", "derived verdict", "no work recorded"],
)
def test_bound_without_a_compiled_step_counts_the_weights(fit: KnownStep | None) -> None:
    time = run_time(intent_of(STORY).run, fit=fit)
    assert time is not None
    assert (time.bound.compiled, time.bound.by) == (False, "compute")
    assert time.bound.seconds == pytest.approx(6 * 0.6e9 * 1024 / 918e12, rel=0.05)
    assert time.ratios == (), "no published step is as short"


def test_long_steps_get_the_range_of_published_steps() -> None:
    long = varied(STORY, {"train.per_device_batch_size": 1024, "train.max_target_length": 8192})
    time = run_time(intent_of(long).run, fit=None)
    assert time is not None
    assert len(time.ratios) == len(published_steps())
    assert time.ratios == tuple(sorted(time.ratios))
    assert 1 < time.ratios[0] < time.ratios[-1] < MOST


def test_own_runs_outrank_published_runs() -> None:
    paces = [
        MeasuredPace(model="", tpu="", compiled=compiled, ratio=ratio) for compiled in (True, False) for ratio in (9, 3)
    ]
    time = run_time(intent_of(STORY).run, fit=known(), paces=paces[:3])
    assert time is not None
    assert (time.own, time.ratios) == (True, (3, 9))
    assert "2 of your runs of this model took 3.0 to 9.0 times their bound, here 25m to 1h15m" in time_text(time)


def test_lora_computes_no_gradients_of_the_weights() -> None:
    full = run_time(intent_of(STORY).run, fit=None)
    lora = run_time(intent_of(varied(STORY, {"lora": {"rank": 8, "alpha": 16}})).run, fit=None)
    assert full is not None
    assert lora is not None
    assert lora.bound.seconds == pytest.approx(full.bound.seconds * 4 / 6)


def test_price_of_the_place_gives_the_cost() -> None:
    run = intent_of(STORY).run
    assert run.place is not None
    priced = replace(run, place=run.place.model_copy(update={"chip_hour_price": 2.0}))
    time = run_time(priced, fit=known())
    assert time is not None
    assert time.cost == pytest.approx(2 * 500 * 8 / 3600)


def test_local_run_has_no_time_bound() -> None:
    assert run_time(intent_of(spec_of("tiny_local")).run, fit=None) is None
