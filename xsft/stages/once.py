"""Does a stage's job once: the only way in which a conversion, an evaluation or an export runs on this machine, and the
claims of conversions on a cluster.

Of two concurrent callers one works, and the other waits and uses the result. Nothing is ever deleted or overwritten: an
interrupted attempt keeps its folder, and the next one gets another. Whether a result is complete is told by its files;
records that a killed process left open are closed by the next caller.

On a cluster the first caller for some weights and output names the run that converts them, and every later caller,
under whatever name, joins that run. Its claim, `<first try>/xsft/claim-<12 hex digits of the inputs>.json`, is written
once and never changed. A claim names no process: the JobSet and records of its run show whether it is running, ended or
failed. A failed one is tried again under its name.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.amounts import duration_text, size_text
from xsft.base.errors import AlreadyRunning, Refused, SpecError, TimedOut, UsageError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.base.reporting import hear_nothing
from xsft.base.stage import StageEnd, StageFound, StageName, StagePlan, StageState, StageVerdict, stage_action
from xsft.launch.local_machine import Machine
from xsft.launch.recording import (
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
from xsft.machine.filelock import is_held
from xsft.machine.memory import memory_bytes
from xsft.machine.pid_namespace import refuse_where_harmful
from xsft.machine.process import user_name
from xsft.records.record import Outcome, Record
from xsft.records.record_files import RecordStore
from xsft.runs.local_runs import lock_of
from xsft.spec.conversion_inputs import DIGITS
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.export_record import Verification

P = TypeVar("P")
"""Plan of a job."""
SCHEMA = "xsft.conversion-claim/1"
MAX_BYTES = 1 << 16


class JobEnd(Struct, frozen=True, kw_only=True):
    """The end of a job, judged by its files."""

    outcome: Outcome
    reason: str | None = None
    """Why it did not complete; None if it did."""
    status: int | None = None
    """Exit status of the program."""
    result: str | None = None
    """Path of a complete result; None without one."""
    why: str = ""
    """Evidence that it is complete."""
    left: str = ""
    """What is left to do for a complete result, as `its … was not …`; empty if nothing is."""
    verdict: StageVerdict | None = None
    verified: str = ""
    """How a conversion was compared with its source."""
    verification: Verification | None = None
    """What an export compared; None for other jobs."""
    warnings: tuple[Problem, ...] = ()


class JobResult(Struct, Generic[P], frozen=True, kw_only=True):
    """The result of one call."""

    action: Literal["finished", "created", "attempt"]
    """`finished`: it existed. `created`, `attempt`: done now, by the first or a later attempt of this run."""
    plan: P
    end: JobEnd
    record: Path | None = None
    log: Path | None = None


class StartedJob(Struct, frozen=True, kw_only=True):
    """The attempt that runs now."""

    argv: tuple[str, ...]
    """Its command, with the machine's interpreter."""
    machine: Machine
    log: Path


class LocalJob(Protocol[P]):
    """How one kind of stage is done on this machine."""

    @property
    def fix(self) -> str:
        """Return the next step after a failure; `{log}` is the path of the whole output."""

    @property
    def look(self) -> Callable[[], P]:
        """Return the function that reads the files again and returns the plan."""

    @property
    def machine(self) -> Callable[[], Machine]:
        """Return the function that returns the machine; called once there is something to do, and room for it."""

    def run_of(self, plan: P) -> StageRun:
        """Return the job's own run, whose record `status` reads."""

    def whole(self, plan: P) -> JobEnd | None:
        """Return the end of the attempt whose result is complete, by its files; None without one."""

    def finish(self, plan: P, end: JobEnd) -> JobEnd:
        """Do what is left for a complete result (`JobEnd.left`), record it beside the result, and return its end."""

    def unfinished(self, plan: P) -> StageFound:
        """Return the state of a job without a complete result that no process does."""

    def hold(self, plan: P) -> AbstractContextManager[None]:
        """Hold the locks of the work."""

    def admit(self, plan: P) -> tuple[Problem, ...]:
        """Return warnings. Raises XsftError if this machine cannot do the job."""

    def command(self, plan: P) -> tuple[str, ...]: ...

    def save_beside(self, plan: P, record: Record, end: JobEnd | None) -> None:
        """Write the record beside the result. `end`: None while the job runs."""

    def work(self, plan: P, attempt: StartedJob) -> JobEnd:
        """Do the job, and return how it ended, judged by the files."""


def do_once(job: LocalJob[P]) -> JobResult[P]:
    """Return the existing result, else do the job. One that fails or is interrupted gives a result that says so. Raises
    Refused, EnvironmentMissing.
    """
    plan = job.look()
    end = job.whole(plan)
    if end and not end.left and _differing_record(job.run_of(plan), end) is None:
        return JobResult(action="finished", plan=plan, end=end)
    warnings: tuple[Problem, ...] = ()
    if end is None:
        warnings = job.admit(plan)
    with check_usable(job.run_of(plan).folder.own), job.hold(plan):
        plan = job.look()  # another process may have finished it
        end = job.whole(plan)
        if end is None:
            return _begin_job(job, plan, warnings)
        if end.left:
            end = job.finish(plan, end)
        # Its process may have been killed after the result was complete, before it could record that.
        run = job.run_of(plan)
        record = _differing_record(run, end)
        if record is not None:
            status = record.last.exit_status
            closed = with_end(record, outcome=end.outcome, reason=end.reason, status=status, at=clock.now())
            save_record(closed, run.folder)
        return JobResult(action="finished", plan=plan, end=end)


def find_job(job: LocalJob[P]) -> StageFound:
    """Return what exists of the job; reads small files only."""
    plan = job.look()
    run = job.run_of(plan)
    end = job.whole(plan)
    if end and not end.left and _differing_record(run, end) is None:
        return StageFound(state="done", why=end.why, result=end.result, verdict=end.verdict, digest=run.digest)
    if is_held(run.folder.lock):
        return StageFound(state="running", why=f"another xsft is doing {run.run_name}", digest=run.digest)
    if end:
        unfinished = end.left or "its run's record does not say so"
        why = f"{end.result} is complete, but {unfinished}"
        return StageFound(state="torn", why=why, digest=run.digest)
    return replace(job.unfinished(plan), digest=run.digest)


def end_of_stage(done: JobResult[Any], fix: str) -> StageEnd:
    """Return the end of a pipeline's stage. `fix`: as `LocalJob.fix`."""
    end = done.end
    if end.result is not None:
        return StageEnd(
            action=stage_action(done.action),
            state="done",
            why=end.why,
            result=end.result,
            verdict=end.verdict,
            warnings=end.warnings,
        )
    is_stopped = end.outcome == "interrupted"
    state: StageState = "failed"
    if is_stopped:
        state = "torn"
    return StageEnd(
        action=stage_action(done.action),
        state=state,
        why=end.reason or "it did not complete",
        fix=fix.format(log=done.log),
        interrupted=is_stopped,
        warnings=end.warnings,
    )


def _begin_job(job: LocalJob[P], plan: P, warnings: tuple[Problem, ...]) -> JobResult[P]:
    run = job.run_of(plan)
    before = stage_record(run)
    machine = job.machine()
    contained = machine.contain()
    refuse_where_harmful(contained)

    def save(record: Record, end: JobEnd | None = None) -> None:
        # The record beside the result first: it may decide whether the result is complete.
        job.save_beside(plan, record, end)
        save_record(record, run.folder)

    record = begin_attempt(before, job.command(plan), folder=run.folder, machine=machine, save=save)
    attempt = StartedJob(argv=record.last.argv, machine=machine, log=Path(record.last.log))

    def ended(end: JobEnd) -> JobResult[P]:
        save(with_end(record, outcome=end.outcome, reason=end.reason, status=end.status, at=clock.now()), end)
        return JobResult(
            action="created" if len(record.attempts) == 1 else "attempt",
            plan=plan,
            end=replace(end, warnings=(*contained.warnings, *warnings, *end.warnings)),
            record=run.folder.record,
            log=attempt.log,
        )

    return run_recorded(
        lambda: ended(job.work(plan, attempt)),
        record=lambda outcome, why: ended(JobEnd(outcome=outcome, reason=why)),
    )


def _differing_record(run: StageRun, end: JobEnd) -> Record | None:
    """Return the run's record if its last attempt has these inputs and another outcome, as after a kill."""
    record = read_stage(run.folder, key=run.key)
    if record is None or record.last.spec_digest != run.digest or record.outcome == end.outcome:
        return None
    return record


WATCH_EVERY_S = 1.0
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
        clock.pause(WATCH_EVERY_S)


class StageHere(Struct, frozen=True, kw_only=True):
    """A stage that this process does: a conversion, an evaluation or an export."""

    name: StageName
    run_name: str
    plan: Callable[[], StagePlan]
    job: Callable[[ShowLine], LocalJob[Any]]
    do: Callable[[ShowLine], JobResult[Any]]
    """Do the job, as the verb of the stage does."""

    def find(self) -> StageFound:
        return found_or_missing(lambda: find_job(self.job(hear_nothing)))

    def perform(self, progress: ShowLine) -> StageEnd:
        try:
            return end_of_stage(self.do(progress), self.job(progress).fix)
        except AlreadyRunning as running:
            return StageEnd(action="adopted", state="running", why=running.message)

    def watch(self, timeout_s: float | None) -> None:
        job = self.job(hear_nothing)
        run = job.run_of(job.look())
        watch_here(output=run.output, run_name=run.run_name, timeout_s=timeout_s)


def found_or_missing(find: Callable[[], StageFound]) -> StageFound:
    """Return what `find` does; `missing` if what it reads does not exist yet, as a checkpoint."""
    try:
        return find()
    except SpecError:
        raise
    except UsageError as unsaved:
        return StageFound(state="missing", why=unsaved.message)


Shortage = tuple[Literal["memory", "disk"], str]
"""What is missing, and the sentence about it."""


def shortages(work: str, *, memory: int, disk: Sequence[tuple[Path, int]] = ()) -> Iterator[Shortage]:
    """Yield what this machine lacks for the work. `memory`: bytes; `disk`: bytes at each path, added up by file
    system."""
    available = memory_bytes()
    if available is not None and available < memory:
        takes = f"{work} takes about {size_text(memory)} of memory"
        yield "memory", f"{takes}; this machine has {size_text(available)}."
    needed: dict[int, tuple[Path, int]] = {}
    for path, size in disk:
        existing = next(parent for parent in (path, *path.parents) if parent.exists())
        device = existing.stat().st_dev
        needed[device] = (existing, needed.get(device, (existing, 0))[1] + size)
    for existing, size in needed.values():
        free = shutil.disk_usage(existing).free
        if free < size:
            takes = f"{work} takes about {size_text(size)} of disk space at {existing}"
            yield "disk", f"{takes}; {size_text(free)} is free."


class ConversionClaim(Struct, frozen=True, kw_only=True):
    """The run that converts some weights into one output."""

    run_name: str
    """Name of the conversion."""
    training: str
    """Run that it was first planned for."""
    user: str = ""
    at: str = ""
    """UTC, ISO 8601."""


_CLAIM = msgspec.json.Decoder(ConversionClaim)


def read_claim(store: RecordStore, plan: ConversionPlan) -> ConversionClaim | None:
    """Return the claim, or None without one. Raises Unreachable if it cannot be read, Refused if it is damaged."""
    path = claim_path(plan)
    content = store.objects_at(path).read(path, limit=MAX_BYTES)
    if content is None:
        return None
    try:
        return _CLAIM.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as broken:
        fix = "Look at the file, and move it away if no conversion is in progress; nothing was changed."
        raise Refused(f"{path} does not say which run converts these weights: {broken}", fix=fix) from broken


def take_claim(store: RecordStore, plan: ConversionPlan) -> ConversionClaim:
    """Return the claim that holds: the one that exists, else a new one for this plan's run. Raises as `read_claim` and
    `Objects.create`."""
    if existing := read_claim(store, plan):
        return existing
    claim = ConversionClaim(run_name=plan.run_name, training=plan.training, user=user_name(), at=store.now())
    path = claim_path(plan)
    text = json.dumps({"schema": SCHEMA, **to_builtins(claim)}, indent=1, ensure_ascii=False) + "\n"
    store.objects_at(path).create(path, text.encode())
    return read_claim(store, plan) or claim


def under_claim(plan: ConversionPlan, claim: ConversionClaim | None) -> ConversionPlan:
    """Return the plan under the name of the run that converts these weights into this output."""
    if claim is None:
        return plan
    return replace(plan, run_name=claim.run_name)


def claim_path(plan: ConversionPlan) -> str:
    return f"{plan.first}/xsft/claim-{plan.digest[:DIGITS]}.json"
