"""The stages of a workload that runs on this machine: this process runs them, or waits for another process that
does."""

from __future__ import annotations

from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.amounts import duration_text
from xsft.base.errors import AlreadyRunning, TimedOut
from xsft.base.names import stage_name
from xsft.base.stage import StageEnd, StageFound, StageName, StagePlan, StageState, stage_action
from xsft.launch.listener import ActionListener
from xsft.launch.local_folder import RunFolder, recorded_run, recover_losses, run_folder_of
from xsft.launch.local_machine import Machine
from xsft.launch.local_run import LocalResult, already_done
from xsft.launch.train_here import failure, next_step, train_here
from xsft.machine import clock
from xsft.machine.lock_holder import is_held
from xsft.planning import api
from xsft.planning.steps import Plan
from xsft.runs.local_runs import lock_of
from xsft.stages.convert import ConversionResult
from xsft.stages.convert_here import converted_here, look
from xsft.weights.conversion_plan import ConversionPlan

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


class ConvertHere:
    """Conversion of the workload's weights on this machine."""

    name: StageName = "convert"

    def __init__(self, workload: api.LoadedWorkload, *, training: str, listener: ActionListener) -> None:
        self._workload, self._listener = workload, listener
        self.run_name = stage_name(run_name=training, stage=self.name)

    def plan(self) -> StagePlan:
        made = self._look()
        return StagePlan(
            name=self.name, run_name=made.run_name, digest=made.digest, writes=made.checkpoint, argv=made.argv
        )

    def find(self) -> StageFound:
        made = self._look()
        if is_held(lock_of(made.output, made.run_name)):
            return StageFound(
                state="running", why="another xsft process is converting these weights", digest=made.digest
            )
        return conversion_found(made)

    def perform(self, progress: ShowLine) -> StageEnd:
        del progress  # the stage has a display of its own
        try:
            return _conversion_end(converted_here(self._workload, self._listener))
        except AlreadyRunning as running:
            return StageEnd(action="adopted", state="running", why=running.message)

    def watch(self, timeout_s: float | None) -> None:
        made = self._look()
        watch_here(output=made.output, run_name=made.run_name, timeout_s=timeout_s)

    def _look(self) -> ConversionPlan:
        return look(self._workload)[0]


def conversion_found(made: ConversionPlan) -> StageFound:
    """Return the state of a conversion that no process is running."""
    if made.whole:
        unsaid = made.recorded is not None and made.recorded.outcome != "completed"
        if unsaid:
            why = f"{made.whole} is complete, but its record does not say so"
            return StageFound(state="torn", why=why, digest=made.digest)
        return StageFound(state="done", why=f"{made.whole} is complete", result=made.whole, digest=made.digest)
    if made.broken:
        why = f"{', '.join(made.broken)} is not complete: {made.why_not}"
        return StageFound(state="torn", why=why, digest=made.digest)
    return StageFound(state="missing", why=made.why, digest=made.digest)


def _conversion_end(result: ConversionResult) -> StageEnd:
    is_done = result.outcome == "completed"
    fix = f"The whole output: {result.log}. What was written stays; the same command converts again."
    return StageEnd(
        action=stage_action(result.action),
        state="done" if is_done else "failed",
        why=result.why if is_done else result.reason or "it did not complete",
        result=result.checkpoint,
        fix="" if is_done else fix,
        interrupted=result.outcome == "interrupted",
        warnings=result.warnings,
    )


class TrainHere:
    """Training on this machine."""

    name: StageName = "train"

    def __init__(
        self, workload: api.LoadedWorkload, *, run_name: str, listener: ActionListener, machine: Machine | None = None
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
        self._listener.trained(made, result, picture)
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
