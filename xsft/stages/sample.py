"""Answers prompts with the weights of a run on this machine, in MaxText's environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from xsft.base.errors import RunFailed, UsageError
from xsft.base.targets import DEFAULT_TRAINER
from xsft.evaluation.inputs import turn
from xsft.evaluation.report import Measurement, measurement_of
from xsft.evaluation.trainer_plan import base_argv, measured_argv, tuned_argv
from xsft.launch.local_folder import RunFolder
from xsft.launch.local_machine import Machine
from xsft.machine.regular import read_bytes
from xsft.records.document import read_record
from xsft.records.record import Record
from xsft.records.record_files import RecordStore
from xsft.stages.evaluate import measure, refuse_small_memory
from xsft.stages.exported import newest_entry
from xsft.trainer.trainer import trainer_named


class TunedRun(Struct, frozen=True, kw_only=True):
    """A training of this machine, and the checkpoint whose answers are wanted."""

    run_name: str
    step: int
    weights: str
    """`…/checkpoints/<step>/model_params`."""
    argv: tuple[str, ...]
    """Command line of the training's last attempt."""


class SampleOptions(Struct, frozen=True, kw_only=True):
    """The options of a request for samples of a run."""

    prompts: tuple[str, ...]
    max_new_tokens: int
    with_base: bool


def tuned_run(name: str, *, step: int | None, store: RecordStore) -> TunedRun:
    """Return the run and its newest checkpoint, or that of `step`. Raises UsageError for a run that is not on this
    machine, trains nothing, or has no such checkpoint."""
    entry = newest_entry(name, store)
    if not entry.on_this_machine:
        raise UsageError(
            f"{name} trained on a cluster, and its weights are not on this machine.",
            fix="Name stages.evaluate in its workload: the cluster answers there.",
            id="sample-not-local",
        )
    folder = RunFolder(path=Path(entry.output) / name)
    record = _training_record(name, folder)
    steps = {int(one.name): one for one in folder.checkpoints()}
    if not steps or (step is not None and step not in steps):
        saved = "it has none yet"
        if steps:
            saved = f"it has the steps {', '.join(map(str, sorted(steps)))}"
        raise UsageError(
            f"run {name} has no checkpoint{f' of step {step}' if step else ''}: {saved}",
            fix=f"Check its progress: xsft status {name}",
            id="sample-checkpoint",
        )
    chosen = step
    if chosen is None:
        chosen = max(steps)
    trainer = trainer_named(str(record.spec.get("trainer", DEFAULT_TRAINER)))
    weights = str(steps[chosen] / trainer.WEIGHTS)
    return TunedRun(run_name=name, step=chosen, weights=weights, argv=record.last.argv)


def _training_record(name: str, folder: RunFolder) -> Record:
    try:
        record = read_record(read_bytes(folder.record))
    except (OSError, ValueError) as failed:
        why = f"{folder.record} cannot be read: {failed}"
        raise UsageError(why, fix="Give the name of another run; nothing was changed.") from failed
    if not record.attempts or "-m" not in record.last.argv:
        raise UsageError(f"{name} trains nothing, so it has no weights.", fix="Give the name of a training.")
    return record


def sample(
    run: TunedRun, sampling: SampleOptions, *, machine: Machine, progress: Callable[[str], None], scratch: Path
) -> Measurement:
    """Return the answers. Raises RunFailed with MaxText's message if it does not answer, and as `measure` does."""
    refuse_small_memory(Path(run.weights))
    job = _sampling_job(run, sampling, scratch=scratch)
    done = measure(job, machine=machine, log=scratch / "log", online=True, progress=progress)
    if done.found is None:
        raise RunFailed(f"MaxText gave no answer: {done.why}", fix="`xsft doctor` shows what is missing.")
    return measurement_of(done.found)


def _sampling_job(run: TunedRun, sampling: SampleOptions, *, scratch: Path) -> dict[str, Any]:
    argv = measured_argv(run.argv, {"base_output_directory": str(scratch), "eval_interval": -1})
    models = [{"name": "tuned", "argv": tuned_argv(argv, weights=run.weights)}]
    if sampling.with_base:
        models.insert(0, {"name": "base", "argv": base_argv(argv)})
    return {
        "models": models,
        "prompts": [to_builtins(turn(one)) for one in sampling.prompts],
        "most_prompts": len(sampling.prompts),
        "max_new_tokens": sampling.max_new_tokens,
        "rows": 0,
    }
