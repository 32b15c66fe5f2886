"""The stages of a workload that runs on this machine: this process runs them, or waits for another process that
does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.amounts import duration_text
from xsft.base.errors import AlreadyRunning, SpecError, TimedOut, UsageError
from xsft.base.names import stage_name
from xsft.base.reporting import Reporter
from xsft.base.stage import StageEnd, StageFound, StageName, StagePlan, StageState, stage_action
from xsft.launch.local_folder import RunFolder, recorded_run, recover_losses, run_folder_of
from xsft.launch.local_machine import Machine
from xsft.launch.local_run import LocalResult, TrainedHere, already_done, failure, next_step, train_here
from xsft.machine import clock
from xsft.machine.lock_holder import is_held
from xsft.planning import api
from xsft.planning.steps import Plan
from xsft.runs.local_runs import lock_of
from xsft.stages.convert_here import conversion_of, converted_here, look
from xsft.stages.once import JobResult, LocalJob, end_of_stage, find_job

LOOK_EVERY_S = 1.0
"""Seconds between checks of a stage that another process is running."""


def watch_here(*, output: str, run_name: str, timeout_s: float | None) -> None:
    """Return when no process holds the run's lock. Raises TimedOut."""
    began = clock.monotonic()
    while is_held(lock_of(output, run_name)):
        passed = clock.monotonic() - began
        if timeout_s is not None and passed >= timeout_s:
            raise TimedOut(
                f"Timed out after {duration_text(passed)}: another xsft process is running {run_name}.",
                fix=f"Follow it: xsft logs {run_name} -f. The same command continues.",
            )
        clock.pause(LOOK_EVERY_S)


class StageHere(Struct, frozen=True, kw_only=True):
    """A stage that this process does: a conversion, an evaluation or an export."""

    name: StageName
    run_name: str
    plan: Callable[[], StagePlan]
    job: Callable[[ShowLine], LocalJob[Any]]
    do: Callable[[ShowLine], JobResult[Any]]
    """Do the job, as the verb of the stage does."""

    def find(self) -> StageFound:
        try:
            return find_job(self.job(hide_line))
        except SpecError:
            raise
        except UsageError as unsaved:  # the training has no checkpoint yet
            return StageFound(state="missing", why=unsaved.message)

    def perform(self, progress: ShowLine) -> StageEnd:
        try:
            return end_of_stage(self.do(progress), self.job(progress).fix)
        except AlreadyRunning as running:
            return StageEnd(action="adopted", state="running", why=running.message)

    def watch(self, timeout_s: float | None) -> None:
        job = self.job(hide_line)
        run = job.run_of(job.look())
        watch_here(output=run.output, run_name=run.run_name, timeout_s=timeout_s)


def hide_line(_line: str) -> None:
    """Show nothing."""


def convert_stage(workload: api.LoadedWorkload, *, training: str, listener: Reporter) -> StageHere:
    """Return the conversion of the workload's weights."""

    def plan() -> StagePlan:
        made, _ = look(workload)
        return StagePlan(
            name="convert", run_name=made.run_name, digest=made.digest, writes=made.checkpoint, argv=made.argv
        )

    return StageHere(
        name="convert",
        run_name=stage_name(run_name=training, stage="convert"),
        plan=plan,
        job=lambda _progress: conversion_of(workload, listener),
        do=lambda _progress: converted_here(workload, listener),  # it has a display of its own
    )


class TrainHere:
    """Training on this machine."""

    name: StageName = "train"

    def __init__(
        self, workload: api.LoadedWorkload, *, run_name: str, listener: Reporter, machine: Machine | None = None
    ) -> None:
        self._workload, self._listener, self._machine = workload, listener, machine
        self.run_name = run_name

    def plan(self) -> StagePlan:
        return training_plan(self._plan())

    def find(self) -> StageFound:
        made = self._plan()
        folder = run_folder_of(made)
        return replace(_find_training(made, folder), digest=made.spec_digest)

    def perform(self, progress: ShowLine) -> StageEnd:
        del progress  # the stage has a display of its own
        made = self._plan()
        self._listener.warn(p for p in api.accepted_problems(made) if p.severity == "warning")
        try:
            result, picture = train_here(made, machine=self._machine, listener=self._listener)
        except AlreadyRunning as running:
            return StageEnd(action="adopted", state="running", why=running.message)
        self._listener.tell(TrainedHere(plan=made, result=result, picture=picture))
        return _training_end(result)

    def watch(self, timeout_s: float | None) -> None:
        made = self._plan()
        watch_here(output=str(run_folder_of(made).path.parent), run_name=made.run_name, timeout_s=timeout_s)

    def _plan(self) -> Plan:
        return api.plan((self._workload,))[0]


def training_plan(made: Plan) -> StagePlan:
    """Return the plan of the training as one of the stages; `xsft plan` shows the rest of it."""
    return StagePlan(
        name="train",
        run_name=made.run_name,
        digest=made.spec_digest,
        writes=f"{str(made.run.output).rstrip('/')}/{made.run_name}/checkpoints",
        argv=made.trainer_argv,
        xpk_argv=made.xpk_argv,
        manifest=made.manifest,
    )


def _find_training(made: Plan, folder: RunFolder) -> StageFound:
    if is_held(folder.lock):
        return StageFound(state="running", why="another xsft process is training it")
    done = already_done(made)
    return _trained_stage(done) if done else _untrained_stage(folder)


def _trained_stage(done: LocalResult) -> StageFound:
    if done.outcome != "completed":
        return StageFound(state="failed", why=done.reason or "it did not complete")
    return StageFound(state="done", why=_saved_text(done), result=_result(done))


def _saved_text(done: LocalResult) -> str:
    return f"its checkpoint of step {done.steps} is saved"


def _result(done: LocalResult) -> str | None:
    return str(done.checkpoints[-1]) if done.checkpoints else None


def _untrained_stage(folder: RunFolder) -> StageFound:
    record = recorded_run(folder)
    if record is None or not record.attempts:
        return StageFound(state="missing", why="no attempt is recorded")
    last = recover_losses(record, folder).attempts[-1]
    state: StageState = "torn" if record.outcome == "running" else "failed"
    reason = last.reason or "it did not complete"
    step = folder.latest_step()
    saved = f"its checkpoint of step {step} is saved" if step else "no checkpoint was saved"
    return StageFound(state=state, why=f"attempt {last.number}: {reason}; {saved}")


def _training_end(result: LocalResult) -> StageEnd:
    action = stage_action(result.action)
    if result.outcome == "completed":
        why = _saved_text(result)
        return StageEnd(action=action, state="done", why=why, result=_result(result))
    return StageEnd(
        action=action,
        state="failed",
        why=failure(result).partition(": ")[2],
        fix=next_step(result),
        interrupted=result.outcome == "interrupted",
    )
