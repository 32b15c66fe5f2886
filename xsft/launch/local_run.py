"""Runs a plan of `target: local`: the real trainer on this machine, monitored, recorded, resumed.

xsft's own files are in `<output>/<run_name>/xsft/`: run.json (the record), trainer-<attempt>.log, lock. Checkpoints are
MaxText's, in `<output>/<run_name>/checkpoints/`. Nothing is ever deleted.
"""

from __future__ import annotations

import json
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from xsft.base.errors import AlreadyRunning, XsftError
from xsft.base.names import RowOrder
from xsft.base.problems import Problem
from xsft.base.reporting import Activity, Reporter, WorkEvent
from xsft.checks.model import moved_commits
from xsft.launch.local_folder import (
    DONE,
    AttemptWatch,
    RunFolder,
    TrainerEnd,
    admit,
    ended_then,
    judge_end,
    recover_losses,
    run_folder_of,
    warnings_of,
)
from xsft.launch.local_machine import Machine, compiled_folder, machine_for, trainer_command, trainer_environment
from xsft.launch.recording import check_usable, interruption
from xsft.machine import clock
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.paths import private_folder, scratch_folder
from xsft.machine.pid_namespace import Containment, refuse_where_harmful
from xsft.machine.signals import as_ctrl_c
from xsft.machine.watched_process import follow
from xsft.planning.steps import Plan
from xsft.records.record import Attempt, Outcome, Receipt, Record
from xsft.records.record_files import record_store
from xsft.runs.failures import NO_ROWS, reason
from xsft.runs.pictures import loss_picture
from xsft.runs.receipt import whole_receipt
from xsft.spec.digest import canonical
from xsft.trainer.kernel_kills import LESS, TRAINER_KILLED, signal_text, true_status
from xsft.trainer.lines import TrainerEvent
from xsft.trainer.shuffling import order_of

TAIL_LINES = 2000


class LocalResult(Struct, frozen=True, kw_only=True):
    action: Literal["finished", "created", "attempt"]
    outcome: Outcome
    reason: str | None
    """Why it did not complete; None if it did."""
    state_reason: str | None = None
    """As `Attempt.state_reason`."""
    exit_status: int | None
    """The trainer's exit status; None if it did not run because the run was finished."""
    steps_asked: int
    steps: int
    """Steps done, over all attempts."""
    losses: Mapping[int, float]
    resumed_from: int | None
    resumed_order: RowOrder | None
    checkpoints: tuple[Path, ...]
    """Complete ones, oldest first."""
    folder: Path
    """`<output>/<run_name>`."""
    record: Path
    log: Path | None
    private_pids: bool
    receipt: Receipt | None = None
    """Receipt of all attempts; None if one has none, because xsft was killed."""
    warnings: tuple[Problem, ...] = ()

    @property
    def first_loss(self) -> float | None:
        if not self.losses:
            return None
        return self.losses[min(self.losses)]

    @property
    def last_loss(self) -> float | None:
        if not self.losses:
            return None
        return self.losses[max(self.losses)]


def run_local(plan: Plan, *, machine: Machine, on_event: Callable[[TrainerEvent], None]) -> LocalResult:
    """Train to the plan's last step, resuming from the last checkpoint; a finished run is not run again.

    A run that fails, ends early or is interrupted gives a result that states it; the record is kept in any case.
    Raises Refused (another workload in this folder, or running now) and EnvironmentMissing (cannot start, disk full).
    """
    folder = run_folder_of(plan)
    with _hold_run(folder):
        record = recover_losses(admit(plan, folder), folder)
        if folder.latest_step() >= plan.run.spec.train.steps:
            return _finished_result(plan, folder, record)
        containment = containment_of(machine, folder)
        return _run_attempt(plan, folder, record=record, machine=machine, found=containment, on_event=on_event)


def already_done(plan: Plan) -> LocalResult | None:
    """Return the result of a finished run, from its record, or None; starts and writes nothing.

    Raises Refused if the folder holds something else, EnvironmentMissing if it cannot be read, so that nothing is built
    for a run that may not start.
    """
    folder = run_folder_of(plan)
    with check_usable(folder.own):
        record = recover_losses(admit(plan, folder), folder)
        if folder.latest_step() < plan.run.spec.train.steps:
            return None
        return _finished_result(plan, folder, record)


@contextmanager
def _hold_run(folder: RunFolder) -> Iterator[None]:
    """Hold the run's lock: one submit at a time. The kernel releases it when its holder dies."""

    def refuse() -> None:
        raise AlreadyRunning(
            f"{folder.path.name} is already running: another xsft process holds {folder.lock}",
            fix=f"wait for it, or follow it: tail -f {folder.own}/trainer-*.log",
        )

    with check_usable(folder.own):
        folder.own.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.lock, waiting=refuse):
            yield


def _finished_result(plan: Plan, folder: RunFolder, record: Record) -> LocalResult:
    """Return the result of a finished run as it ended: a further attempt would train nothing more."""
    last = record.attempts[-1] if record.attempts else None
    return _result(
        plan,
        folder,
        record,
        end=ended_then(last, steps=plan.run.spec.train.steps) if last else DONE,
        action="finished",
        exit_status=None,
        steps=folder.latest_step(),
        resumed_from=last.resumed_from if last else None,
        private_pids=bool(last and last.private_pids),
    )


def _result(
    plan: Plan, folder: RunFolder, record: Record, *, end: TrainerEnd | Attempt, **of_attempt: Any
) -> LocalResult:
    last = record.attempts[-1] if record.attempts else None
    return LocalResult(
        outcome=end.outcome,
        reason=end.reason,
        state_reason=end.state_reason,
        steps_asked=plan.run.spec.train.steps,
        losses=record.losses,
        resumed_order=last.order if last else None,
        checkpoints=folder.checkpoints(),
        folder=folder.path,
        record=folder.record,
        log=Path(last.log) if last else None,
        receipt=whole_receipt(record.attempts),
        **of_attempt,
    )


def _run_attempt(
    plan: Plan,
    folder: RunFolder,
    *,
    record: Record,
    machine: Machine,
    found: Containment,
    on_event: Callable[[TrainerEvent], None],
) -> LocalResult:
    with scratch_folder("run") as scratch:
        watch = AttemptWatch(
            folder=folder,
            record=_begin_record(plan, folder, record=record, machine=machine, found=found),
            on_event=on_event,
            starts_from=folder.latest_step(),
        )
        watch.save()
        # So that `status` finds it. A failure to write the index is reported at the end, by the caller.
        record_store(machine.env).index(replace(watch.record, output=str(folder.path.parent)), str(folder.record))
        status: int | None = None
        try:
            with as_ctrl_c():
                status = _train(plan, watch, machine=machine, prefix=found.prefix, scratch=scratch)
            status = true_status(status, watch.tail)
            end = judge_end(watch, steps=plan.run.spec.train.steps, status=status)
        except KeyboardInterrupt as stop:
            end = TrainerEnd(outcome="interrupted", reason=interruption(stop))
        except BaseException as failed:
            watch.close(TrainerEnd(outcome="failed", reason=str(failed)), status=status, at=machine.now())
            raise
        watch.close(end, status=status, at=machine.now())
    last = watch.record.last
    return _result(
        plan,
        folder,
        watch.record,
        end=last,
        action="created" if len(watch.record.attempts) == 1 else "attempt",
        exit_status=last.exit_status,
        steps=watch.last_step,
        resumed_from=watch.logged.resumed_from,
        private_pids=found.private,
        warnings=(*found.warnings, *moved_commits(plan.run, (record,)), *warnings_of(watch)),
    )


def _train(plan: Plan, watch: AttemptWatch, *, machine: Machine, prefix: tuple[str, ...], scratch: Path) -> int:
    """Run the trainer and return its exit status. Raises as `trainer_process.follow` and `docker_run.run_in_container`
    do.
    """
    attempt, env = watch.record.last, trainer_environment(plan, machine=machine, scratch=scratch)
    to: dict[str, Any] = {"log": Path(attempt.log), "on_line": watch.line, "grace_s": machine.grace_s}
    if machine.container is None:
        return follow((*prefix, *attempt.argv), env=env, **to)
    hub, compiled = private_folder(machine.cache / "huggingface"), private_folder(compiled_folder(machine))
    writable = (watch.folder.path, hub, compiled, scratch)
    return machine.container.run(plan, argv=attempt.argv, env=env, writable=writable, **to)


def _begin_record(plan: Plan, folder: RunFolder, *, record: Record, machine: Machine, found: Containment) -> Record:
    """Return the record with the attempt that begins now."""
    number = 1 + max((a.number for a in record.attempts), default=0)
    resumes = folder.latest_step() > 0
    # The rows that an attempt without a checkpoint has read do not count.
    argv = trainer_command(plan, python=machine.python, attempt=number if resumes else 1)
    attempt = Attempt(
        number=number,
        argv=argv,
        resumed_order=order_of(argv, earlier=[earlier.argv for earlier in record.attempts]) if resumes else None,
        env=plan.trainer_env,
        log=str(folder.own / f"trainer-{number}.log"),
        started_at=machine.now(),
        spec_digest=plan.spec_digest,
        resolved={"hub_commits": dict(plan.run.hub_commits)} if plan.run.hub_commits else {},
        private_pids=found.private,
    )
    return replace(
        record,
        spec=json.loads(canonical(plan.run)),
        spec_digest=plan.spec_digest,
        steps=plan.run.spec.train.steps,
        mode=plan.mode.value,
        attempts=(*record.attempts, attempt),
    )


def containment_of(machine: Machine, folder: RunFolder) -> Containment:
    """Return how to contain the trainer. Raises Refused if it would end another process, or an earlier one still writes
    to the folder.
    """
    containment = machine.contain()
    refuse_where_harmful(containment)
    if machine.container:
        machine.container.refuse_where_running(folder.path)
    return containment


LOOK_AT_THE_DATA = "set a file or a split with rows: data.hf_train_files, data.hf_path, data.hf_name, data.train_split"


class TrainingHere(Activity, frozen=True, kw_only=True):
    """Activity: the trainer runs on this machine."""

    steps: int


class TrainedHere(WorkEvent, frozen=True, kw_only=True):
    """Event: a training on this machine has ended."""

    plan: Plan
    result: LocalResult
    picture: Path | None
    """The file of its loss curve."""


def train_here(plan: Plan, *, machine: Machine | None, listener: Reporter) -> tuple[LocalResult, Path | None]:
    """Train, unless the run is finished; return the result and the picture of its losses. Raises as `run_local`
    does."""
    result = already_done(plan)
    if result is None:
        trainer = machine or machine_of_plan(plan, listener)
        before = trainer.contain().warnings
        listener.warn(before)
        with listener.display(TrainingHere(steps=plan.run.spec.train.steps)) as on_event:
            result = run_local(plan, machine=trainer, on_event=on_event)
        listener.warn(w for w in result.warnings if w not in before)
    store = record_store(machine.env if machine else None)
    output = str(result.folder.parent)
    records = store.read_run(output, result.folder.name)
    if records:
        listener.warn(store.index(replace(records[-1], output=output), str(result.record)))
    picture = None
    if result.outcome == "completed":
        picture = _keep_picture(result, listener)
    return result, picture


def machine_of_plan(plan: Plan, listener: Reporter) -> Machine:
    """Return the plan's image, or MaxText's environment; fetch or build it if it is missing. Raises as
    `machine_for`.
    """
    with listener.working("image" if plan.run.spec.image.ref else "MaxText environment") as progress:
        return machine_for(plan, progress=progress)


def failure(result: LocalResult) -> str:
    """Return e.g. `tiny: 20 of 50 steps: the data ended`."""
    return f"{result.folder.name}: {result.steps} of {result.steps_asked} steps: {result.reason}"


def _keep_picture(result: LocalResult, listener: Reporter) -> Path | None:
    """Write the picture and return its path; None if there is nothing to draw or it cannot be written, which never
    fails a finished run."""
    path = result.record.parent / "loss.png"
    if result.action == "finished" and path.exists():
        return path
    try:
        write_atomic(path, loss_picture(result.losses, title=result.folder.name))
    except (XsftError, ImportError, OSError, ValueError) as problem:
        listener.say(f"warning: no picture of the loss: {problem}")
        return None
    return path


def next_step(result: LocalResult) -> str:
    """Return what to do after a run that did not complete."""
    log = f"the whole output: {result.log}"
    match result.outcome:
        case "short":
            change = "set data.num_epoch higher, or train.steps lower, and submit it again under the same name"
            again = "without this it would read the same rows from the first one"
            return f"{change}; {again}; {log}"
        case _ if (result.reason or "").startswith(TRAINER_KILLED):
            return f"{LESS} {log}"
        case _ if result.reason == NO_ROWS:
            return f"{LOOK_AT_THE_DATA}; {log}"
        case _:
            return f"xsft why {shlex.quote(str(result.folder))} shows the most likely cause and what to do; {log}"


class ProgramEnd(Struct, frozen=True, kw_only=True):
    status: int
    """Exit status, 128 + n for signal n."""
    why: str
    """Why it failed: the signal or its last exception, else the exit status."""


def follow_program(
    argv: Sequence[str],
    *,
    name: str,
    env: Mapping[str, str],
    log: Path,
    on_line: Callable[[str], None] = lambda _line: None,
) -> ProgramEnd:
    """Run it as `trainer_process.follow` does. `name`: what the reason calls it."""
    tail, began = deque[str](maxlen=TAIL_LINES), clock.monotonic()

    def keep(line: str) -> None:
        tail.append(line)
        on_line(line)

    return program_end(name, follow(tuple(argv), env=env, log=log, on_line=keep), tuple(tail), since=began)


def program_end(name: str, status: int, tail: Sequence[str], *, since: float) -> ProgramEnd:
    """Return the end of a program. `tail`: its last lines; `since`: `clock.monotonic` of its start."""
    true = true_status(status, tail)
    why = signal_text(name, true, since=since) or reason(tail) or f"{name} ended with exit status {true}"
    return ProgramEnd(status=true, why=why)
