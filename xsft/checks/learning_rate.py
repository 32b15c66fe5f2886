"""Check the learning rate: one that destroys the weights, and a schedule that ends before the run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xsft.checks.trainer_keys import where_of
from xsft.checks.values import is_on, number
from xsft.facts import Facts
from xsft.problems import Problem, warning
from xsft.spec.base import Value
from xsft.spec.resolve import Run

HIGHEST = 1e-3
"""Published fine-tunings of all weights use 1e-6 to 1e-4, most tutorials 2e-5 (sft.yml's default)."""
HIGHEST_LORA = 1e-2
"""Adapters take about ten times as much: 1e-4 to 1e-3."""
SCHEDULE = "learning_rate_schedule_steps"


def check(run: Run, keys: Mapping[str, Value], facts: Facts) -> Iterator[Problem]:
    """Check runs that start from a checkpoint on a cluster; a tiny model from random weights may need any rate."""
    del facts
    if run.spec.on_cluster and (run.spec.model.checkpoint or run.spec.model.hf):
        yield from _rate(run, keys)
    yield from _schedule(run, keys)


def _rate(run: Run, keys: Mapping[str, Value]) -> Iterator[Problem]:
    rate, lora = number(keys.get("learning_rate")), is_on(keys.get("lora.enable_lora", False))
    highest = HIGHEST_LORA if lora else HIGHEST
    if rate is None or rate <= highest:
        return
    what = "adapters" if lora else "all weights"
    message = (
        f"A learning rate of {rate:g} is above {highest:g}, more than fine-tunings of {what} use: Adam moves every "
        "weight by about that much in a step, and the model forgets what it knew."
    )
    fix = f"Set train.learning_rate to {2e-4 if lora else 2e-5:g}, or give a reason under checks:."
    yield warning("learning-rate-high", where_of("learning_rate", run), message, fix)


def _schedule(run: Run, keys: Mapping[str, Value]) -> Iterator[Problem]:
    """Check its length. source: maxtext@0.2.5 utils/maxtext_utils.py [create_learning_rate_schedule]."""
    length, steps = number(keys.get(SCHEDULE)), run.spec.train.steps
    if length is None or not 0 < length < steps:
        return
    message = (
        f"The learning rate is 0 after step {length:g}: the last {steps - length:g} of {steps} steps train nothing."
    )
    fix = f"Set {SCHEDULE} to at least {steps}, or remove it."
    yield warning("schedule-ends-early", where_of(SCHEDULE, run), message, fix)
