"""Check the schedule: steps, checkpoints, profiler and evaluation, also after a restart; and the learning rate and the
optimizer, for values that destroy the weights or that train nothing. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from xsft.base.problems import Problem, error, note, warning
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.paths import FILE_FORMATS
from xsft.spec.resolve import Run

ULTRACHAT = "HuggingFaceH4/ultrachat_200k"
"""sft.yml's default data set; test_sft is its hf_eval_split. source: maxtext@0.2.5 configs/post_train/sft.yml."""


SFT_LEARNING_RATE = 2e-5
"""source: maxtext@0.2.5 configs/post_train/sft.yml."""
HIGHEST = 1e-3
"""Published fine-tunings of all weights use 1e-6 to 1e-4, most tutorials 2e-5 (sft.yml's default)."""
HIGHEST_LORA = 1e-2
"""Adapters take about ten times as much: 1e-4 to 1e-3."""
LOWEST = 1e-8
LOWEST_LORA = 1e-5
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
    yield from check_schedule(run, keys, facts)
    yield from check_learning_rate(run, keys, facts)


def check_schedule(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for schedules that would stop the run, lose its work or train it wrongly."""
    del facts
    period = run.spec.train.checkpoint_period
    steps = run.spec.train.steps
    if period is not None and run.spec.on_cluster and 2 * period > steps:
        message = (
            f"checkpoint_period {period} saves less than twice in {steps} steps; an interruption loses up to "
            f"{period} of them."
        )
        fix = f"Use at most {max(1, steps // 2)}, or remove it: xsft uses max(50, steps/10)."
        yield warning("checkpoint-period", "train.checkpoint_period", message, fix)
    yield from _check_profiler(run, keys)
    yield from _check_evaluation(run, keys)
    yield from _check_accumulation(run, keys)
    yield from _check_bf16_weights(run, keys)
    yield from _check_resumption(run, keys)


def may_restart(run: Run) -> bool:
    """Return whether the run is expected to resume after an interruption."""
    return run.spec.on_cluster and (run.spec.restarts.max > 0 or takes_spot_nodes(run))


def takes_spot_nodes(run: Run) -> bool:
    return run.spec.tpu is not None and run.spec.tpu.capacity == "spot"


def _check_profiler(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check the profiled steps. source: google-tunix@0.1.7 sft/profiler.py: ValueError when the first profiled step is
    not before the last."""
    if not keys.get("profiler"):
        return
    steps = run.spec.train.steps
    skipped = int(number(keys.get("skip_first_n_steps_for_profiler")) or 1)
    if steps <= skipped:
        message = f"The profiler starts after step {skipped}, and the run has {steps}; Tunix fails with ValueError."
        yield error("profiler-window", where_of("profiler", run), message, "Remove the profiler or train more steps.")
    elif may_restart(run):
        message = (
            f"The profiler crashes after a restart from step {steps - skipped} or later, and when the finished run is "
            "resubmitted."
        )
        yield warning(
            "profiler-resume", where_of("profiler", run), message, "Remove the profiler from runs that may restart."
        )


def _check_evaluation(run: Run, keys: Keys) -> Iterator[Problem]:
    interval = number(keys.get("eval_interval")) or -1
    if (number(keys.get("target_eval_loss")) or 0) > 0:
        message = "Reaching target_eval_loss ends the trainer with exit status 1, which counts as a failure."
        yield warning("target-eval-loss", where_of("target_eval_loss", run), message, "Remove it.")
    if interval <= 0:
        return
    where = where_of("eval_interval", run)
    if run.release.moe_eval_crash and run.model and run.model.moe:
        message = (
            f"Evaluation crashes for models with experts in MaxText {run.release.version}: KeyError "
            f"'eval/avg_moe_lb_loss' before step 1 ({run.spec.model.name} has {run.model.experts})."
        )
        yield error("moe-eval-crash", where, message, "Remove the eval section.")
    yield from _check_eval_data(keys, where)
    # Compare the evaluations with the training, in sequences that are passed through the model; the backward pass
    # of a trained one takes as long as two more. source: google-tunix@0.1.7 sft/peft_trainer.py: one evaluation
    # before the first step, one after each interval, eval_steps batches each.
    batches = number(keys.get("eval_steps")) or -1
    if batches > 0:
        trained = number(keys.get("per_device_batch_size")) or 1.0
        evaluated = number(keys.get("eval_per_device_batch_size")) or trained
        rounds = 1 + run.spec.train.steps // int(interval)
        accumulated = number(keys.get("gradient_accumulation_steps")) or 1.0
        share = rounds * batches * evaluated / (3 * run.spec.train.steps * trained * accumulated)
        if share > 1:
            message = (
                f"{rounds} evaluations of {batches:g} batches take about {share:.1f} times as long as the "
                f"{run.spec.train.steps} steps of training."
            )
            fix = "Set eval.interval higher or eval.steps lower."
            yield warning("eval-outlasts-training", where, message, fix)


def _check_eval_data(keys: Keys, where: str) -> Iterator[Problem]:
    path = keys.get("hf_path") or keys.get("grain_file_type")
    files = keys.get("hf_eval_files") or keys.get("grain_eval_files")
    if path in FILE_FORMATS and not files:
        message = f"hf_path: {path} is a file format, and no files are given for evaluation."
        yield error("data-files-missing", "data.hf_eval_files", message, "Set data.hf_eval_files.")
    elif not keys.get("hf_eval_split") and not files and path != ULTRACHAT:
        message = f"Evaluation has no data: without a split MaxText uses UltraChat's `test_sft`, from {path}."
        yield error("eval-split-missing", where, message, "Set data.hf_eval_split or data.hf_eval_files.")
    if (number(keys.get("eval_steps")) or -1) < 0:
        message = (
            "Each evaluation continues where the previous one stopped; after one pass over the whole split the "
            "later evaluations have no data."
        )
        yield warning(
            "eval-not-rewound",
            where,
            message,
            "Set eval.steps to the split's batches divided by the number of evaluations.",
        )


def _check_accumulation(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check gradient accumulation. source: run with maxtext@0.2.5 and google-tunix@0.1.7, the newest on PyPI."""
    if (number(keys.get("gradient_accumulation_steps")) or 1) <= 1:
        return
    where = where_of("gradient_accumulation_steps", run)
    if run.release.layout == "legacy":
        message = (
            "Gradient accumulation is broken in the legacy SFT trainer: the loss is not normalised and steps are "
            "miscounted."
        )
        fix = "Remove it, or use an image with MaxText 0.2.0 or newer."
        yield error("gradient-accumulation-legacy", where, message, fix)
        return
    message = (
        "With PyPI's google-tunix 0.1.7 the first accumulated step fails: MaxText uses an accumulator that this "
        "Tunix does not define."
    )
    fix = (
        'Remove it. If the image has the Tunix commit that MaxText pins: checks: {gradient-accumulation-tunix: "why"}.'
    )
    yield error("gradient-accumulation-tunix", where, message, fix, kind="disputable")


def _check_bf16_weights(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check for bfloat16 weights. source: MaxText withdrew its own advice (5ae391c17): potential loss of gradient
    updates."""
    if keys.get("weight_dtype") != "bfloat16" or is_on(keys.get("lora.enable_lora")):
        return
    rate = number(keys.get("learning_rate")) or SFT_LEARNING_RATE
    message = (
        "A bfloat16 weight rounds away updates below about 1/300 of itself; Adam's are about the learning rate, "
        f"{rate:g}, so only weights below {300 * rate:.2g} move."
    )
    fix = (
        "Remove weight_dtype (float32 is the default) and save memory with mu_dtype: bfloat16, or raise the "
        "learning rate."
    )
    yield warning("bf16-weights", where_of("weight_dtype", run), message, fix)


def _check_resumption(run: Run, keys: Keys) -> Iterator[Problem]:
    if not may_restart(run):
        return
    if "learning_rate_schedule_steps" not in keys:
        message = (
            "The learning rate schedule depends on train.steps; after resuming with other steps the schedule differs."
        )
        fix = "Set overrides.maxtext.learning_rate_schedule_steps if steps may grow."
        yield note("schedule-follows-steps", "train.steps", message, fix)
    if not run.release.saves_optimizer:
        message = (
            f"MaxText {run.release.version} saves weights only: after a restart Adam's moments and the learning "
            "rate start over."
        )
        fix = "Use an image with MaxText 0.2.0 or newer."
        yield warning("optimizer-not-saved", "image.maxtext", message, fix)


def check_learning_rate(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check runs that start from a checkpoint on a cluster; a tiny model from random weights may need any rate."""
    del facts
    if run.spec.on_cluster and (run.spec.model.checkpoint or run.spec.model.hf):
        yield from _check_rate(run, keys)
    # The schedule's length. source: maxtext@0.2.5 utils/maxtext_utils.py [create_learning_rate_schedule].
    length = number(keys.get(SCHEDULE))
    steps = run.spec.train.steps
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
    yield from _check_adam(run, keys)
    yield from _check_dropout_and_dtype(run, keys)


def _check_rate(run: Run, keys: Keys) -> Iterator[Problem]:
    rate = number(keys.get("learning_rate", DEFAULT_RATE))
    lora = is_on(keys.get("lora.enable_lora"))
    sgd = keys.get("opt_type") == "sgd"
    highest, lowest = (HIGHEST_LORA, LOWEST_LORA) if lora else (HIGHEST, LOWEST)
    if sgd:
        highest = math.inf
        lowest = LOWEST_SGD
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


def _check_adam(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check how much AdamW shrinks each weight over the run: by rate x decay in a step, at half the peak rate."""
    rate = number(keys.get("learning_rate", DEFAULT_RATE))
    decay = number(keys.get("adam_weight_decay"))
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
    rate = number(keys.get("dropout_rate"))
    on = keys.get("enable_dropout", run.pins.get("enable_dropout"))
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
