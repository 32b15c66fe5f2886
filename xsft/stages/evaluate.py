"""Evaluates a training: base and tuned weights in MaxText's environment, and a verdict; on this machine or on a
cluster. Samples of a run of this machine are measured by the same program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.amounts import duration_text
from xsft.base.errors import EnvironmentMissing, Refused, RunFailed, UsageError, refuse_errors
from xsft.base.lenient import ShowLine
from xsft.base.names import attempt_number, next_attempt, stage_name
from xsft.base.problems import Problem
from xsft.base.reporting import Reporter
from xsft.base.stage import StageFound, StageName, StagePlan
from xsft.base.targets import DEFAULT_TRAINER
from xsft.catalog.releases import DEFAULT
from xsft.environments.ask import Interpreter, ProgramFailed, ask
from xsft.evaluation.inputs import FILE, EvaluationPlan, turn
from xsft.evaluation.report import (
    MAX_BYTES,
    PROGRAM,
    EvaluationReport,
    Measurement,
    from_json,
    known_before,
    measurement_of,
    program_job,
)
from xsft.evaluation.trainer_plan import base_argv, measured_argv, stage_plan, tuned_argv
from xsft.launch.local_folder import RunFolder
from xsft.launch.local_machine import Machine, compiled_folder, maxtext_machine, program_environment
from xsft.launch.local_run import program_end
from xsft.launch.recording import StageRun, read_stage
from xsft.launcher.slicejob import SliceJob, evaluation_job
from xsft.machine import clock
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.paths import private_folder, scratch_folder
from xsft.machine.pid_namespace import refuse_where_harmful
from xsft.machine.regular import read_bytes
from xsft.planning import api
from xsft.planning.steps import JobPlan
from xsft.records import EVALUATION_KEY
from xsft.records.document import read_record
from xsft.records.record import Record
from xsft.records.record_files import RecordStore, record_store
from xsft.spec.stages import EvaluateStage
from xsft.stages.cluster_job import SharedIntent, plan_job
from xsft.stages.evaluate_plan import plan_evaluate, read_report
from xsft.stages.exported import newest_entry
from xsft.stages.once import JobEnd, JobResult, StageHere, StartedJob, do_once, shortages
from xsft.trainer.local import reads_only_files
from xsft.trainer.trainer import trainer_named
from xsft.workers.delivery import programs_digest
from xsft.workers.evaluation_container import evaluation_document, judged
from xsft.workers.evaluation_verdict import Judgement

MARK = "xsft evaluate: "
"""Start of the program's own lines."""
MEMORY_FACTOR = 1.2
"""Memory relative to the size of the weights' files: arrays and activations of one set of weights at a time."""
PROCESS_BYTES = 1 << 30
"""Bytes of Python, JAX and MaxText without any weights. source: measured with maxtext@0.2.5, 1.0 GB."""


class LocalEvaluation(Struct, frozen=True, kw_only=True):
    """An evaluation on this machine; a `LocalJob`. evaluation.json is its result and its own record."""

    look: Callable[[], EvaluationPlan]
    machine: Callable[[], Machine]
    progress: Callable[[str], None]
    online: bool = False
    """Whether data, tokenizer or weights are read from anything but files of this machine."""
    fix: str = "The whole output: {log}. The same command evaluates again."

    def run_of(self, plan: EvaluationPlan) -> StageRun:
        inputs = {key: value for key, value in to_builtins(plan.inputs).items() if value is not None}
        return StageRun(
            run_name=plan.run_name, digest=plan.digest, output=plan.output, key=EVALUATION_KEY, inputs=inputs
        )

    def whole(self, plan: EvaluationPlan) -> JobEnd | None:
        evaluation = existing_evaluation(plan)
        if evaluation is None:
            return None
        return _judged_end(evaluation.report.judgement, path=evaluation.path)

    def finish(self, plan: EvaluationPlan, end: JobEnd) -> JobEnd:
        del plan
        return end

    def unfinished(self, plan: EvaluationPlan) -> StageFound:
        record = read_stage(self.run_of(plan).folder, key=EVALUATION_KEY)
        if record is None or not record.attempts or record.last.spec_digest != plan.digest:
            return StageFound(state="missing", why="no evaluation of these inputs has begun")
        if record.last.outcome == "running":
            return StageFound(state="torn", why="xsft or the machine stopped during the evaluation")
        why = record.last.reason or f"the last attempt ended as {record.last.outcome}"
        return StageFound(state="failed", why=why)

    def hold(self, plan: EvaluationPlan) -> AbstractContextManager[None]:
        waiting = f"another xsft is running {plan.run_name}; waiting for it"
        return exclusive(self.run_of(plan).folder.lock, waiting=lambda: self.progress(waiting))

    def admit(self, plan: EvaluationPlan) -> tuple[Problem, ...]:
        """Raise if the tuned weights are missing, or this machine cannot hold or run them."""
        weights = Path(plan.weights)
        if not (weights / "_METADATA").is_file():
            raise Refused(
                f"{plan.training} has no checkpoint of step {plan.inputs.step}: {weights} is missing or incomplete",
                fix="Train it to that step first; `xsft run` with its workload does both.",
                id="evaluation-untrained",
            )
        if plan.inputs.release != DEFAULT:
            raise UsageError(
                f"the workload needs MaxText {plan.inputs.release}, but this machine evaluates with {DEFAULT}.",
                fix=f"Write image.maxtext: {DEFAULT}, or remove stages.evaluate.",
                id="evaluation-release",
            )
        refuse_small_memory(weights)
        return ()

    def command(self, plan: EvaluationPlan) -> tuple[str, ...]:
        """Return the command as the record names it: its question is a file of the process that asks."""
        del plan
        return ("python3", "-I", "-m", PROGRAM, "JOB", "ANSWER")

    def save_beside(self, plan: EvaluationPlan, record: Record, end: JobEnd | None) -> None:
        """Write nothing."""

    def work(self, plan: EvaluationPlan, attempt: StartedJob) -> JobEnd:
        directory = Path(next_attempt(plan.directory, existing=tuple(map(str, _attempts_of(plan)))))
        private_folder(directory)
        measured = measure(
            program_job(plan), machine=attempt.machine, log=attempt.log, online=self.online, progress=self.progress
        )
        if measured.found is None:
            return JobEnd(outcome="failed", reason=measured.why, status=measured.status)
        judgement = judged(measured.found, to_builtins(plan.inputs.rules))
        path = directory / FILE
        document = evaluation_document(measured.found, judgement, known_before(plan, worker=programs_digest()))
        write_atomic(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        return replace(_judged_end(judgement, path=path), status=measured.status)


def _judged_end(judgement: Judgement, *, path: Path) -> JobEnd:
    """Return the end of a complete evaluation; if its verdict failed, its run has failed."""
    why = f"verdict {judgement.summary}"
    if judgement.verdict == "failed":
        return JobEnd(outcome="failed", reason=why, why=why, result=str(path), verdict="failed")
    return JobEnd(outcome="completed", why=why, result=str(path), verdict=judgement.verdict)


def refuse_small_memory(weights: Path) -> None:
    """Raise EnvironmentMissing if this machine's memory cannot hold the weights."""
    size = sum(file.stat().st_size for file in weights.rglob("*") if file.is_file())
    for _kind, message in shortages(str(weights), memory=int(size * MEMORY_FACTOR) + PROCESS_BYTES):
        raise EnvironmentMissing(message, fix="Evaluate it on a larger machine.", id="evaluation-memory")


class EvaluationFile(Struct, frozen=True, kw_only=True):
    """A complete evaluation.json."""

    path: Path
    report: EvaluationReport


def _attempts_of(plan: EvaluationPlan) -> tuple[Path, ...]:
    """Return the folders of this evaluation's attempts, the first one first."""
    first = Path(plan.directory)
    beside = first.parent.iterdir() if first.parent.is_dir() else ()
    numbered = sorted((number, path) for path in beside if (number := attempt_number(path.name, first=first.name)))
    return tuple(path for _, path in numbered)


def existing_evaluation(plan: EvaluationPlan) -> EvaluationFile | None:
    """Return the newest complete evaluation of these inputs; None without one."""
    for folder in reversed(_attempts_of(plan)):
        try:
            report = from_json(read_bytes(folder / FILE, limit=MAX_BYTES))
        except OSError:
            continue
        if report is not None and report.digest == plan.digest:
            return EvaluationFile(path=folder / FILE, report=report)
    return None


class MeasurementEnd(Struct, frozen=True, kw_only=True):
    """The end of one measurement."""

    found: dict[str, Any] | None
    """The program's answer; None if it failed."""
    status: int
    """Exit status of the program."""
    why: str = ""
    """Why it failed."""


def measure(
    job: Mapping[str, Any], *, machine: Machine, log: Path | None, online: bool, progress: Callable[[str], None]
) -> MeasurementEnd:
    """Run the program to its end; its output goes to `log`, its own lines to `progress`. `online`: whether the run
    reads anything but files. Raises Refused and EnvironmentMissing if it cannot start."""
    contained = machine.contain()
    refuse_where_harmful(contained)

    def on_line(line: str) -> None:
        if line.startswith(MARK):
            progress(line.removeprefix(MARK))

    began = clock.monotonic()
    with scratch_folder("evaluate") as scratch:
        of_jax = {"JAX_COMPILATION_CACHE_DIR": str(compiled_folder(machine)), "JAX_PLATFORMS": "cpu"}
        env = {**program_environment(machine, scratch, online=online), **of_jax}
        interpreter = Interpreter(python=machine.python, env=env, prefix=contained.prefix, log=log)
        try:
            return MeasurementEnd(found=ask(interpreter, PROGRAM, job, on_line), status=0)
        except ProgramFailed as failed:
            end = program_end("it", failed.status, failed.tail, since=began)
            return MeasurementEnd(found=None, status=end.status, why=failed.error or end.why)


def evaluate_stage(workload: api.LoadedWorkload, *, training: str, listener: Reporter) -> StageHere:
    """Return the evaluation of the training on this machine."""

    def evaluation_plan() -> EvaluationPlan:
        (intent,) = api.intend((workload,))
        return plan_evaluate(intent.run, digest=intent.spec_digest, file=Path(workload.file))

    def job(progress: ShowLine) -> LocalEvaluation:
        (intent,) = api.intend((workload,))
        online = not reads_only_files(intent.run)
        machine = partial(maxtext_machine, listener)
        return LocalEvaluation(look=evaluation_plan, machine=machine, progress=progress, online=online)

    def do(progress: ShowLine) -> JobResult[EvaluationPlan]:
        done = do_once(job(progress))
        evaluation = existing_evaluation(done.plan)
        if done.action != "finished" and evaluation is not None:
            listener.tell(evaluation.report)
        return done

    return StageHere(
        name="evaluate",
        run_name=stage_name(run_name=training, stage="evaluate"),
        plan=lambda: stage_plan(evaluation_plan()),
        job=job,
        do=do,
    )


class EvaluationJob(Struct, frozen=True, kw_only=True):
    """Evaluation of the training on its own slices; a `ClusterJob`."""

    intent: SharedIntent
    listener: Reporter
    name: StageName = "evaluate"

    def ahead(self) -> StagePlan:
        plan = self.look()
        with self.listener.working("xsft") as progress:
            job = self._planned(plan, progress)
        shown_plan = stage_plan(plan, notes=tuple(_takes(job)))
        return replace(shown_plan, xpk_argv=job.xpk_argv, manifest=job.manifest, problems=job.problems)

    def look(self) -> EvaluationPlan:
        intent = self.intent.now()
        return plan_evaluate(intent.run, digest=intent.spec_digest, file=Path(self.intent.workload.file))

    def found(self, plan: EvaluationPlan) -> StageFound:
        report = read_report(plan, store=record_store())
        if report is None:
            why = "these weights were not measured with these prompts and rules"
            return StageFound(state="missing", why=why, digest=plan.digest)
        judgement = report.judgement
        return StageFound(
            state="done",
            why=f"verdict {judgement.summary}",
            result=plan.result,
            verdict=judgement.verdict,
            digest=plan.digest,
        )

    def recorded_name(self, plan: EvaluationPlan) -> str:
        return plan.run_name

    def ready(self, progress: ShowLine, *, is_sent: bool) -> tuple[EvaluationPlan, JobPlan[SliceJob]]:
        plan = self.look()
        job = self._planned(plan, progress)
        if is_sent:
            refuse_errors(job.problems)
        return plan, job

    def show_end(self, plan: EvaluationPlan) -> None:
        report = read_report(plan, store=record_store())
        if report is not None:
            self.listener.tell(report)

    def _planned(self, plan: EvaluationPlan, progress: ShowLine) -> JobPlan[SliceJob]:
        """Return the plan of the job on the workload's slices. Raises SpecError if its command cannot be sent."""
        run = self.intent.now().run
        stage = run.spec.stages.evaluate or EvaluateStage()
        job = evaluation_job(plan, run, limit_s=stage.limit_s)
        return plan_job(job, file=self.intent.workload.file, problems=(), progress=progress)


def _takes(plan: JobPlan[SliceJob]) -> Iterator[str]:
    """Yield which slices the evaluation takes, for how long at most, and where its program comes from."""
    run, limit = plan.run, duration_text(plan.job.limit_s)
    described = run.slice.xpk_type if run.slice else "?"
    yield f"{run.chips} chips ({run.num_slices} x {described}) for at most {limit} from the start of its pods"
    if run.spec.restarts.max:
        yield f"a preemption restarts it, with the same limit, at most {run.spec.restarts.max} times"
    if plan.job.is_carried:
        yield f"the image carries its program, sha256 {plan.job.program[:12]}"
    else:
        yield "its program is sent with the command: the image's lock does not name this version (make image push)"


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
    steps = {int(checkpoint.name): checkpoint for checkpoint in folder.checkpoints()}
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
    argv = measured_argv(run.argv, {"base_output_directory": str(scratch), "eval_interval": -1})
    models = [{"name": "tuned", "argv": tuned_argv(argv, weights=run.weights)}]
    if sampling.with_base:
        models.insert(0, {"name": "base", "argv": base_argv(argv)})
    job = {
        "models": models,
        "prompts": [to_builtins(turn(prompt)) for prompt in sampling.prompts],
        "most_prompts": len(sampling.prompts),
        "max_new_tokens": sampling.max_new_tokens,
        "rows": 0,
    }
    done = measure(job, machine=machine, log=scratch / "log", online=True, progress=progress)
    if done.found is None:
        raise RunFailed(f"MaxText gave no answer: {done.why}", fix="`xsft doctor` shows what is missing.")
    return measurement_of(done.found)
