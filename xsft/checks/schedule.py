"""Check the schedule: steps, checkpoints, profiler and evaluation, also after a restart. Pure."""

from __future__ import annotations

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


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for schedules that would stop the run, lose its work or train it wrongly."""
    del facts
    period, steps = run.spec.train.checkpoint_period, run.spec.train.steps
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
    spot = run.spec.tpu is not None and run.spec.tpu.capacity == "spot"
    return run.spec.on_cluster and (run.spec.restarts.max > 0 or spot)


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
    if keys.get("weight_dtype") != "bfloat16" or is_on(keys.get("lora.enable_lora", False)):
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
