"""Check the learning rate and the optimizer for values that destroy the weights, or that train nothing. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xsft.base.problems import Problem, error, warning
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

HIGHEST = 1e-3
"""Published fine-tunings of all weights use 1e-6 to 1e-4, most tutorials 2e-5 (sft.yml's default)."""
HIGHEST_LORA = 1e-2
"""Adapters take about ten times as much: 1e-4 to 1e-3."""
LOWEST, LOWEST_LORA = 1e-8, 1e-5
"""A tenth of the lowest published rates and less."""
LOWEST_SGD = 1e-3
"""SGD moves all weights together by rate x gradient, which MaxText clips to 1; Adam moves each by the rate."""
LARGEST_EPS = {"adam_eps": 1e-3, "adam_eps_root": 1e-6}
"""Clipped gradients of 1e9 weights are about 3e-5 each, their squares 1e-9: both vanish beside these."""
LONGEST_WARMUP = 0.5
MOST_DECAY = 0.1
DEFAULT_RATE = 2e-5
"""source: maxtext@0.2.5 configs/post_train/sft.yml"""
FINAL = "learning_rate_final_fraction"
SCHEDULE = "learning_rate_schedule_steps"


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check runs that start from a checkpoint on a cluster; a tiny model from random weights may need any rate."""
    del facts
    if run.spec.on_cluster and (run.spec.model.checkpoint or run.spec.model.hf):
        yield from _check_rate(run, keys)
    yield from _check_rate_schedule(run, keys)
    yield from _check_adam(run, keys)
    yield from _check_dropout_and_dtype(run, keys)


def _check_rate(run: Run, keys: Keys) -> Iterator[Problem]:
    rate, lora = number(keys.get("learning_rate", DEFAULT_RATE)), is_on(keys.get("lora.enable_lora", False))
    sgd = keys.get("opt_type") == "sgd"
    highest, lowest = (HIGHEST_LORA, LOWEST_LORA) if lora else (HIGHEST, LOWEST)
    if sgd:
        highest, lowest = math.inf, LOWEST_SGD
    what = "adapters" if lora else "all weights"
    if rate is not None and 0 < rate < lowest:
        by = " by SGD, which does not scale gradients as Adam does," if sgd else ""
        message = (
            f"A learning rate of {rate:g} is below {lowest:g}: fine-tuning {what}{by} with it learns almost nothing."
        )
        change = "Remove opt_type" if sgd else f"Set train.learning_rate to {2e-4 if lora else 2e-5:g}"
        fix = f"{change}, or give a reason under checks:."
        yield warning("learning-rate-low", where_of("learning_rate", run), message, fix)
    for key, largest in LARGEST_EPS.items():
        epsilon = number(keys.get(key))
        if epsilon is not None and epsilon >= largest:
            message = f"{key} {epsilon:g} is larger than the values to which Adam adds it: almost nothing is learned."
            yield warning("learning-rate-low", where_of(key, run), message, "Remove it.")
    if rate is None or rate <= highest:
        return
    message = (
        f"A learning rate of {rate:g} is above {highest:g}, more than fine-tunings of {what} use: Adam moves every "
        "weight by about that much in a step, and the model loses what it learned before."
    )
    fix = f"Set train.learning_rate to {2e-4 if lora else 2e-5:g}, or give a reason under checks:."
    yield warning("learning-rate-high", where_of("learning_rate", run), message, fix)


def _check_rate_schedule(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check its length. source: maxtext@0.2.5 utils/maxtext_utils.py [create_learning_rate_schedule]."""
    length, steps = number(keys.get(SCHEDULE)), run.spec.train.steps
    if length is not None and 0 < length < steps:
        message = (
            f"The learning rate is 0 after step {length:g}: the last {steps - length:g} of {steps} steps train nothing."
        )
        fix = f"Set {SCHEDULE} to at least {steps}, or remove it."
        yield warning("schedule-ends-early", where_of(SCHEDULE, run), message, fix)
    share = number(keys.get("warmup_steps_fraction"))
    if share is not None and LONGEST_WARMUP < share <= 1:
        message = f"The learning rate rises for {share:.0%} of the steps, and is at its value only after them."
        yield warning("warmup-long", where_of("warmup_steps_fraction", run), message, "Set it to 0.1 or less.")
    last = number(keys.get(FINAL))
    if last is not None and last > 1:
        message = f"{FINAL} {last:g} lets the learning rate grow to {last:g} times its value; 0.1 is usual."
        yield warning("learning-rate-grows", where_of(FINAL, run), message, "Set it to 1 or less.")


def _check_adam(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check how much AdamW shrinks each weight over the run: by rate x decay in a step, at half the peak rate."""
    rate, decay = number(keys.get("learning_rate", DEFAULT_RATE)), number(keys.get("adam_weight_decay"))
    shrunk = (rate or 0) * (decay or 0) * run.spec.train.steps / 2
    if run.spec.on_cluster and run.spec.model.checkpoint and shrunk > MOST_DECAY:
        message = f"adam_weight_decay {decay:g} shrinks every weight by {1 - math.exp(-shrunk):.0%} over the run."
        yield warning("weight-decay-high", where_of("adam_weight_decay", run), message, "Use 0.1 or less.")
    # Check Adam's numbers: it divides by 1 - beta^step, and by a root that is 0 for weights without a gradient.
    # source: optax@0.2.8 _src/transform.py [scale_by_adam].
    ranges = {"adam_b1": (0, 1), "adam_b2": (0, 1), "adam_eps": (0, None)}
    for key, (low, high) in ranges.items():
        amount = number(keys.get(key))
        fits = amount is None or (amount < high and amount >= low if high else amount > low)
        if not fits:
            limits = "at least 0 and less than 1" if high else "more than 0"
            message = f"{key} is {amount:g}: Adam divides by 0, or grows without limit, and the loss is NaN."
            yield error("optimizer-value", where_of(key, run), message, f"Give {limits}.", kind="disputable")


def _check_dropout_and_dtype(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check for a dropout rate of 1 in a model that uses dropout; most models disable it."""
    rate, on = (
        number(keys.get("dropout_rate")),
        keys.get("enable_dropout", run.pins.get("enable_dropout")),
    )
    if rate is not None and rate >= 1 and on is not False:
        message = f"dropout_rate is {rate:g}: every activation is dropped, and nothing is trained."
        yield error(
            "optimizer-value", where_of("dropout_rate", run), message, "Set it to less than 1.", kind="disputable"
        )
    elif rate and on is False:
        message = f"dropout_rate={rate:g} has no effect: enable_dropout is off for {run.spec.model.name}."
        yield warning("no-op-key", where_of("dropout_rate", run), message, "Remove it.")
    # Check for float16, in which gradients below 6e-8 are 0 and activations above 65,504 infinite: MaxText has no
    # loss scaling.
    if run.spec.on_cluster and keys.get("dtype") == "float16":
        message = "dtype is float16: without loss scaling, which MaxText lacks, gradients become 0 or the loss NaN."
        yield warning("float16", where_of("dtype", run), message, "Remove it: TPUs compute in bfloat16.")
