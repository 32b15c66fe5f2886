"""The minimum time of a run, compared with published measurements of MaxText's pre-training."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from tests.stories import intent_of, spec_of, varied
from xsft.catalog.fit import PublishedStep, published_steps
from xsft.checks.step_time import RunTime, published_step_s, run_time
from xsft.records.record import MeasuredPace
from xsft.spec.model import WorkloadSpec
from xsft.verbs.plan_text import time_text

MOST = 4.0
"""No published step took longer than this times its minimum."""
STORY = spec_of("qwen3_gsm8k")


def time_of(spec: WorkloadSpec = STORY, *paces: MeasuredPace) -> RunTime:
    time = run_time(intent_of(spec).run, paces=paces)
    assert time is not None
    return time


@pytest.mark.parametrize("published", published_steps(), ids=lambda published: published.id)
def test_published_steps_are_between_the_minimum_and_its_maximum_multiple(published: PublishedStep) -> None:
    least_s = published_step_s(published)
    assert least_s <= published.step_s <= MOST * least_s


def test_published_runs_have_the_types_of_their_fields() -> None:
    read = msgspec.convert(msgspec.to_builtins(published_steps()), tuple[PublishedStep, ...])
    assert [published_step.id for published_step in read] == [published_step.id for published_step in published_steps()]


def test_the_time_counts_the_weights() -> None:
    time = time_of()
    assert time.step_s == pytest.approx(6 * 0.6e9 * 1024 / 918e12, rel=0.05)
    assert (time.steps, time.seconds) == (500, 500 * time.step_s)
    assert time.tokens_per_second == pytest.approx(1024 / time.step_s)
    assert time.ratios == (), "no published step is as short"
    assert time_text(time) == (
        "at least 2s of arithmetic for 500 steps (0.00402 s each), 0.0045 chip-hours; "
        "steps this short take several times that"
    )


def test_less_than_a_second_is_not_called_0s() -> None:
    assert time_text(replace(time_of(), steps=10)).startswith(
        "under a second of arithmetic for 10 steps (0.00402 s each)"
    )


def test_long_steps_get_the_range_of_published_steps() -> None:
    time = time_of(varied(STORY, {"train.per_device_batch_size": 1024, "train.max_target_length": 8192}))
    assert len(time.ratios) == len(published_steps())
    assert time.ratios == tuple(sorted(time.ratios))
    assert 1 < time.ratios[0] < time.ratios[-1] < MOST
    assert "published runs took" in time_text(time)


def test_own_runs_outrank_published_runs() -> None:
    def pace(ratio: float, *, compiled: bool = False) -> MeasuredPace:
        return MeasuredPace(model="", tpu="", compiled=compiled, ratio=ratio)

    time = time_of(STORY, pace(900), pace(300), pace(2, compiled=True))
    assert (time.own, time.ratios) == (True, (300, 900))
    assert "2 of your runs of this model took 300.0 to 900.0 times that, here 10m to 30m" in time_text(time)
    assert "1 of your runs of this model took 96.3 times that, here 3m" in time_text(time_of(STORY, pace(96.3)))


def test_lora_computes_no_gradients_of_the_weights() -> None:
    lora = time_of(varied(STORY, {"lora": {"rank": 8, "alpha": 16}}))
    assert lora.step_s == pytest.approx(time_of().step_s * 4 / 6)


def test_price_of_the_place_gives_the_cost() -> None:
    run = intent_of(STORY).run
    assert run.place is not None
    time = run_time(replace(run, place=run.place.model_copy(update={"chip_hour_price": 2.0})))
    assert time is not None
    assert time.cost == pytest.approx(2 * time.seconds * 8 / 3600)


def test_local_run_has_no_time_bound() -> None:
    assert run_time(intent_of(spec_of("tiny_local")).run) is None
