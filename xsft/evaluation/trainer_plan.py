"""Plan the evaluation of a training: the trainer's own command line, with other weights and a held-out split. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xsft.base.amounts import counted_text
from xsft.base.names import stage_name
from xsft.base.problems import Problem, error, errors_in, warning
from xsft.base.stage import StagePlan
from xsft.catalog.releases import DEFAULT
from xsft.evaluation.inputs import Conversation, EvaluationInputs, EvaluationPlan, directory_of, turn
from xsft.spec.base import Keys, Value
from xsft.spec.resolve import Run
from xsft.spec.stages import EvaluateStage
from xsft.trainer.arguments import argument
from xsft.trainer.trainer import trainer_of
from xsft.workers.evaluation_verdict import AnswerPattern

STAGE = "evaluate"
SPLIT_KEYS = "data.hf_eval_split or data.hf_eval_files"
WHERE = "stages.evaluate"

MEASURED: Keys = {
    "packing": False,
    "per_device_batch_size": 1,
    "eval_per_device_batch_size": 1,
    "eval_interval": 1,
    "enable_data_shuffling": False,
    "num_epoch": 1,
    "generate_padding_batch_train": False,
    "generate_padding_batch_eval": False,
    "grain_worker_count": 0,
}
"""Keys of a measurement: each row of the split once, in the order of the file, read by the program's own process, which
notes the prompts. None of them changes a row. MaxText reads the held-out split only if an evaluation is configured."""
_TRAINING_ONLY = ("profiler=", "gradient_accumulation_steps=", "lora.lora_restore_path=")
_LORA = "lora."


def evaluation_plan(run: Run, *, digest: str, prompts: tuple[Conversation, ...] | None = None) -> EvaluationPlan:
    """Return the plan for the checkpoint of the training's last step. `digest`: the training's spec_digest. `prompts`:
    those of the workload's file; None if it names no file."""
    stage = run.spec.stages.evaluate or EvaluateStage()
    held_out, output = held_out_keys(run, stage), run.output or ""
    inputs = EvaluationInputs(
        training=run.run_name,
        training_digest=digest,
        step=run.spec.train.steps,
        release=run.release.version,
        max_new_tokens=stage.max_new_tokens,
        prompts=prompts or written_prompts(stage),
        held_out=held_out,
        rows=stage.rows if held_out else 0,
        require=tuple(AnswerPattern(prompt=one.prompt, matches=one.matches) for one in stage.require),
        max_eval_loss=stage.max_eval_loss,
    )
    name = stage_name(run_name=run.run_name, stage=STAGE)
    directory = directory_of(inputs, output=output, run_name=name)
    trained = trainer_of(run).trainer_argv(run)
    weights = weights_of(run, step=inputs.step)
    measured = measured_argv(trained, {**run.located_keys(held_out), "base_output_directory": directory})
    return EvaluationPlan(
        run_name=name,
        output=output,
        inputs=inputs,
        directory=directory,
        weights=weights,
        base=run.checkpoint or "random weights, as the training began",
        base_argv=base_argv(measured),
        tuned_argv=tuned_argv(measured, weights=weights),
    )


def weights_of(run: Run, *, step: int) -> str:
    return f"{run.output}/{run.run_name}/checkpoints/{step}/{trainer_of(run).WEIGHTS}"


def written_prompts(stage: EvaluateStage) -> tuple[Conversation, ...] | None:
    """Return the prompts that the workload itself lists; None if it lists none."""
    return tuple(map(turn, stage.prompts)) if isinstance(stage.prompts, list) else None


def held_out_keys(run: Run, stage: EvaluateStage) -> dict[str, Value]:
    """Return MaxText's keys of the held-out split; empty if the workload names none."""
    data, split = run.spec.data, stage.split or run.spec.data.hf_eval_split
    if not (split or data.hf_eval_files):
        return {}
    named: dict[str, Value] = (
        {"grain_eval_files": data.hf_eval_files, "grain_worker_count_eval": 0}
        if data.pipeline == "grain"
        else {"hf_eval_split": split, "hf_eval_files": data.hf_eval_files}
    )
    columns: list[bool | int | float | str] = [*(data.eval_columns or data.columns)]
    return {**{key: value for key, value in named.items() if value is not None}, "eval_data_columns": columns}


def measured_argv(trained: Sequence[str], keys: Keys) -> tuple[str, ...]:
    """Return the trainer's command line for a measurement, with these keys in place of its own."""
    measurement_keys = {**MEASURED, **keys}
    gone = (*_TRAINING_ONLY, *(f"{key}=" for key in measurement_keys))
    kept = (word for word in trained if not word.startswith(gone))
    return (*kept, *(argument(key, value) for key, value in measurement_keys.items()))


def base_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command with the weights that the training started from: without load_parameters_path random ones."""
    return tuple(word for word in argv if not word.startswith(_LORA))


def tuned_argv(argv: Sequence[str], *, weights: str) -> tuple[str, ...]:
    """Return the command with the trained weights: after LoRA the initial ones with the trained adapters."""
    if "lora.enable_lora=True" in argv:
        return (*argv, argument(f"{_LORA}lora_restore_path", weights))
    kept = (word for word in argv if not word.startswith("load_parameters_path="))
    return (*kept, argument("load_parameters_path", weights))


def check_evaluation_job(run: Run, *, prompts: tuple[Conversation, ...] | None = None) -> Iterator[Problem]:
    """Yield why the workload's evaluation cannot be planned. `prompts`: as in `evaluation_plan`."""
    yield from _check_on_cluster(run)
    if run.release.layout == "legacy":
        message = f"MaxText {run.release.version} has the legacy layout; xsft cannot evaluate models of that layout."
        yield error("evaluate-legacy", WHERE, message, "Use MaxText 0.2.0 or newer, or remove the stage.")
    yield from errors_in(tuple(check_comparable(run, prompts=prompts)))


def check_comparable(run: Run, *, prompts: tuple[Conversation, ...] | None = None) -> Iterator[Problem]:
    """Yield problems if the evaluation would measure nothing, or have nothing to compare with. `prompts`: of the file
    that the workload names; None if it was not read."""
    stage = run.spec.stages.evaluate or EvaluateStage()
    held_out, known = held_out_keys(run, stage), prompts or written_prompts(stage)
    if known is None and not held_out and not isinstance(stage.prompts, str):
        message = "Nothing to evaluate: the workload names neither prompts nor a held-out split."
        yield error("evaluate-nothing", WHERE, message, f"Set stages.evaluate.prompts, {SPLIT_KEYS}.")
    elif not held_out and not stage.require and stage.max_eval_loss is None:
        message = "Without a rule or a held-out split the answers cannot be judged: the verdict is not-judged."
        yield warning("evaluate-not-judged", WHERE, message, f"Set stages.evaluate.require, {SPLIT_KEYS}.")
    if stage.max_eval_loss is not None and not held_out:
        message = "max_eval_loss needs a held-out split, and the workload names none."
        yield error("evaluate-split", f"{WHERE}.max_eval_loss", message, f"Set {SPLIT_KEYS}.")
    for required in stage.require:
        if known is not None and required.prompt >= len(known):
            message = f"Rule for prompt {required.prompt}: the workload has {len(known)} prompts, numbered from 0."
            yield error("evaluate-prompt", f"{WHERE}.require", message, f"Give a number below {len(known)}.")


def _check_on_cluster(run: Run) -> Iterator[Problem]:
    """Yield why a cluster does not evaluate the run."""
    if not run.spec.on_cluster:
        return
    if run.mode.single_controller:
        message = (
            "Evaluation is not supported under Pathways: one process would load two sets of weights through the proxy."
        )
        fix = "Remove stages.evaluate, or set mode: mcjax."
        yield error("evaluate-pathways", WHERE, message, fix)
    if run.release.layout != "legacy" and run.release.version != DEFAULT:
        message = f"The image has MaxText {run.release.version}, but evaluation on a cluster needs {DEFAULT}."
        yield error("evaluate-release", WHERE, message, f"Set image.maxtext: {DEFAULT}, or remove stages.evaluate.")


def stage_plan(plan: EvaluationPlan, *, notes: tuple[str, ...] = ()) -> StagePlan:
    """Return the evaluation as `xsft plan` shows it. `notes`: on its machines."""
    inputs = plan.inputs
    prompts_text = (
        counted_text(len(inputs.prompts), "prompt")
        if inputs.prompts
        else "the first five user turns of the held-out split"
    )
    rows = f", and the loss of {inputs.rows} rows" if inputs.rows else ""
    rules = (*inputs.require, *(("eval loss",) if inputs.rows else ()))
    judged = f"rules of the verdict: {len(rules)}" if rules else "no rule and no split: the verdict will be not-judged"
    return StagePlan(
        name="evaluate",
        run_name=plan.run_name,
        digest=plan.digest,
        writes=plan.result,
        argv=plan.tuned_argv,
        notes=(f"greedy answers to {prompts_text}, at most {inputs.max_new_tokens} tokens each{rows}", judged, *notes),
    )
