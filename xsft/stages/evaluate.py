"""Evaluates a training on this machine, once: base and tuned weights in MaxText's environment, and a verdict.

Of two concurrent callers one measures, and the other waits and uses the result. Nothing is ever overwritten: an
interrupted attempt keeps its folder, and the next one gets another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from xsft.base.amounts import size_text
from xsft.base.errors import EnvironmentMissing, Refused, UsageError
from xsft.base.names import attempt_number, next_attempt
from xsft.base.stage import StageAction, StageEnd, StageFound
from xsft.catalog.releases import DEFAULT
from xsft.evaluation.plan import FILE, EvaluationPlan
from xsft.evaluation.program import PROGRAM, program_job
from xsft.evaluation.report import MAX_BYTES, EvaluationReport, from_json, known_before
from xsft.launch.local_folder import RunFolder
from xsft.launch.local_machine import Machine, compiled_folder, program_environment
from xsft.launch.local_program import follow_program
from xsft.launch.stage_record import (
    StageRun,
    begin_attempt,
    check_usable,
    read_stage,
    run_recorded,
    save_record,
    stage_record,
    with_end,
)
from xsft.machine import clock
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.lock_holder import is_held
from xsft.machine.memory import memory_bytes
from xsft.machine.paths import private_folder
from xsft.machine.pid_namespace import refuse_where_harmful
from xsft.machine.regular import read_bytes
from xsft.machine.scratch import scratch_folder
from xsft.records import EVALUATION_KEY
from xsft.records.record import Outcome
from xsft.workers.evaluation_archive import program_digest
from xsft.workers.evaluation_container import evaluation_document, judged
from xsft.workers.evaluation_verdict import Judgement
from xsft.workers.sent import sent_argv

MARK = "xsft evaluate: "
"""Start of the program's own lines."""
FAILED = f"{MARK}failed: "
MEMORY_FACTOR = 1.2
"""Memory relative to the size of the weights' files: arrays and activations of one set of weights at a time."""
PROCESS_BYTES = 1 << 30
"""Bytes of Python, JAX and MaxText without any weights. source: measured with maxtext@0.2.5, 1.0 GB."""


class LocalEvaluation(Struct, frozen=True, kw_only=True):
    """The inputs of an evaluation on this machine."""

    plan: EvaluationPlan
    machine: Callable[[], Machine]
    """Return the machine; called once there is something to measure."""
    progress: Callable[[str], None]
    online: bool = False
    """Whether data, tokenizer or weights are read from anything but files of this machine."""


def find_evaluation(plan: EvaluationPlan) -> StageFound:
    """Return what exists of this evaluation. Raises Refused if its folder belongs to another run."""
    if evaluation := existing_evaluation(plan):
        return _judged_stage(evaluation)
    folder = _run_folder(plan)
    if is_held(folder.lock):
        return StageFound(state="running", why=f"another xsft holds {folder.lock}")
    record = read_stage(folder, key=EVALUATION_KEY)
    last = record.last if record and record.attempts else None
    if last is None or last.spec_digest != plan.digest:
        return StageFound(state="missing", why="no evaluation of these inputs has begun")
    if last.outcome == "running":
        return StageFound(state="torn", why="xsft or the machine stopped during the evaluation")
    return StageFound(state="failed", why=last.reason or f"the last attempt ended as {last.outcome}")


def _judged_stage(evaluation: EvaluationFile) -> StageFound:
    judgement = evaluation.report.judgement
    why = f"verdict {judgement.summary}"
    return StageFound(state="done", why=why, result=str(evaluation.path), verdict=judgement.verdict)


def perform(request: LocalEvaluation) -> StageEnd:
    """Measure and judge, unless that was done. A program that fails, is interrupted or whose verdict fails gives an end
    that says so. Raises Refused for weights that are not there, EnvironmentMissing for a machine that is too small.
    """
    plan, folder = request.plan, _run_folder(request.plan)
    if evaluation := existing_evaluation(plan):
        return _found_end(evaluation)
    _refuse_unfit(plan)
    with check_usable(folder.own), exclusive(folder.lock, waiting=lambda: request.progress(_waiting_line(plan))):
        if evaluation := existing_evaluation(plan):  # another process may have made it
            return _found_end(evaluation)
        return _measure_recorded(request, folder)


def _waiting_line(plan: EvaluationPlan) -> str:
    return f"another xsft is running {plan.run_name}; waiting for it"


def _found_end(evaluation: EvaluationFile) -> StageEnd:
    return _evaluation_end("done", evaluation.report.judgement, path=evaluation.path)


def _evaluation_end(action: StageAction, judgement: Judgement, *, path: Path) -> StageEnd:
    return StageEnd(
        action=action,
        state="done",
        why=f"verdict {judgement.summary}",
        result=str(path),
        verdict=judgement.verdict,
    )


def _refuse_unfit(plan: EvaluationPlan) -> None:
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


def refuse_small_memory(weights: Path) -> None:
    """Raise EnvironmentMissing if this machine's memory cannot hold the weights."""
    size = sum(file.stat().st_size for file in weights.rglob("*") if file.is_file())
    needed, memory = int(size * MEMORY_FACTOR) + PROCESS_BYTES, memory_bytes()
    if memory is not None and memory < needed:
        raise EnvironmentMissing(
            f"{weights} takes about {size_text(needed)} of memory; this machine has {size_text(memory)}.",
            fix="Evaluate it on a larger machine.",
            id="evaluation-memory",
        )


def _measure_recorded(request: LocalEvaluation, folder: RunFolder) -> StageEnd:
    plan, machine = request.plan, request.machine()
    directory = Path(next_attempt(plan.directory, taken=tuple(map(str, _attempts_of(plan)))))
    program = ("python3", "-I", "-m", PROGRAM, "JOB", "ANSWER")  # without the text that is sent
    before = stage_record(stage_run(plan))
    private_folder(directory)
    record = begin_attempt(before, program, folder=folder, machine=machine, save=partial(save_record, folder=folder))
    action: StageAction = "created" if len(record.attempts) == 1 else "attempt"

    def end(outcome: Outcome, reason: str | None, status: int | None) -> None:
        done = with_end(record, outcome=outcome, reason=reason, status=status, at=clock.now())
        save_record(done, folder)

    def work() -> StageEnd:
        log = Path(record.last.log)
        done = measure(program_job(plan), machine=machine, log=log, online=request.online, progress=request.progress)
        if done.found is None:
            end("failed", done.why, done.status)
            fix = f"The whole output: {log}. The same command evaluates again."
            return StageEnd(action=action, state="failed", why=done.why, fix=fix)
        judgement, path = judged(done.found, to_builtins(plan.inputs.rules)), directory / FILE
        document = evaluation_document(done.found, judgement, known_before(plan, worker=program_digest()))
        write_atomic(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        if judgement.verdict == "failed":  # then the run has failed
            end("failed", f"verdict {judgement.summary}", done.status)
        else:
            end("completed", None, done.status)
        return _evaluation_end(action, judgement, path=path)

    def unfinished(outcome: Outcome, why: str) -> StageEnd:
        end(outcome, why, None)
        return StageEnd(action=action, state="torn", why=why, interrupted=True)

    return run_recorded(work, record=unfinished)


class EvaluationFile(Struct, frozen=True, kw_only=True):
    """A complete evaluation.json."""

    path: Path
    report: EvaluationReport


def _run_folder(plan: EvaluationPlan) -> RunFolder:
    """Return `<output>/<training>-evaluate`. Raises UsageError if the output is not a folder of this machine."""
    return stage_run(plan).folder


def stage_run(plan: EvaluationPlan) -> StageRun:
    inputs = {key: value for key, value in to_builtins(plan.inputs).items() if value is not None}
    return StageRun(run_name=plan.run_name, digest=plan.digest, output=plan.output, key=EVALUATION_KEY, inputs=inputs)


def _attempts_of(plan: EvaluationPlan) -> tuple[Path, ...]:
    """Return the folders of this evaluation's attempts, the first one first."""
    first = Path(plan.directory)
    beside = first.parent.iterdir() if first.parent.is_dir() else ()
    found = sorted((number, path) for path in beside if (number := attempt_number(path.name, first=first.name)))
    return tuple(path for _, path in found)


def existing_evaluation(plan: EvaluationPlan) -> EvaluationFile | None:
    """Return the newest complete evaluation of these inputs; None without one."""
    return next(_complete(plan), None)


def _complete(plan: EvaluationPlan) -> Iterator[EvaluationFile]:
    for folder in reversed(_attempts_of(plan)):
        try:
            report = from_json(read_bytes(folder / FILE, limit=MAX_BYTES))
        except OSError:
            continue
        if report is not None and report.digest == plan.digest:
            yield EvaluationFile(path=folder / FILE, report=report)


class MeasurementEnd(Struct, frozen=True, kw_only=True):
    """The end of one measurement."""

    found: dict[str, Any] | None
    """The program's answer; None if it failed."""
    status: int
    """Exit status of the program."""
    why: str = ""
    """Why it failed."""


def command(machine: Machine, *, job: Path, answer: Path) -> tuple[str, ...]:
    """Return the program's command line. -I: neither the user's site nor the checkout can shadow MaxText."""
    return (*machine.contain().prefix, str(machine.python), "-I", *sent_argv(PROGRAM, {}, (str(job), str(answer)))[1:])


def measure(
    job: Mapping[str, Any], *, machine: Machine, log: Path | None, online: bool, progress: Callable[[str], None]
) -> MeasurementEnd:
    """Run the program to its end; its output goes to `log`, its own lines to `progress`. `online`: whether the run
    reads anything but files. Raises Refused and EnvironmentMissing if it cannot start."""
    refuse_where_harmful(machine.contain())
    failures: list[str] = []

    def on_line(line: str) -> None:
        if line.startswith(MARK):
            progress(line.removeprefix(MARK))
        if line.startswith(FAILED):
            failures.append(line.removeprefix(FAILED))

    with scratch_folder("evaluate") as scratch:
        question, answer = scratch / "job.json", scratch / "answer.json"
        question.write_text(json.dumps(job), encoding="utf-8")
        own = {"JAX_COMPILATION_CACHE_DIR": str(compiled_folder(machine)), "JAX_PLATFORMS": "cpu"}
        env = {**program_environment(machine, scratch, online=online), **own}
        argv, log = command(machine, job=question, answer=answer), log or scratch / "log"
        end = follow_program(argv, name="it", env=env, log=log, on_line=on_line)
        found = json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else {}
    if "models" in found:
        return MeasurementEnd(found=found, status=end.status)
    return MeasurementEnd(found=None, status=end.status, why=failures[-1] if failures else end.why)
