"""Does a stage's job on a cluster, once: one JobSet is created, adopted or recognised, and files show its result.
`xsft run` walks through such jobs; the verbs of conversions and exports call one of them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import RunFailed, TimedOut
from xsft.base.lenient import ShowLine
from xsft.base.names import stage_name
from xsft.base.problems import Problem
from xsft.base.reporting import AskUser, Reporter
from xsft.base.stage import StageEnd, StageFound, StageName, StagePlan, stage_action
from xsft.cluster import cluster
from xsft.launch.identity import Proposal
from xsft.launch.recording import gather_provenance
from xsft.launch.submission import Submission, Submitter, is_whole
from xsft.launch.submit import SubmissionEnd, submit_cluster, submit_plan, submitter_for
from xsft.launch.wait_for_end import after_plan
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.launcher import Job
from xsft.launcher.slicejob import SliceJob
from xsft.machine.deadline import NEVER, Deadline
from xsft.machine.signals import NOTHING_CREATED, goes_on, when_interrupted
from xsft.planning import api
from xsft.planning.planner import job_rendering, make_job_plan
from xsft.planning.steps import AnyJob, Intent, JobPlan, Plan, Planned
from xsft.records.record_files import record_store
from xsft.runs.record_end import record_job_end
from xsft.runs.rows import state_line
from xsft.runs.waiting import DONE, WaitLimits, WaitResult, error_of
from xsft.stages.evaluate_plan import is_measured
from xsft.stages.exported import is_exported
from xsft.stages.once import found_or_missing

P = TypeVar("P")
"""Plan of a job."""


class ClusterCall(Struct, frozen=True, kw_only=True):
    """The options with which the user called the command."""

    ask: AskUser | None
    """Asks before something is created; None: it is created without asking."""
    again: bool = False
    """As in `submit_cluster`."""
    poll_s: float
    listener: Reporter
    deadline: Deadline = NEVER
    """Of the whole command (--timeout)."""


class SharedIntent:
    """A workload's intent with the facts that its stages share: gathered once, until a stage has ended. `known`:
    gathered just now."""

    def __init__(self, workload: api.LoadedWorkload, *, known: Intent | None) -> None:
        self.workload = workload
        self._known = known

    def now(self) -> Intent:
        if self._known is None:
            (self._known,) = api.intend((self.workload,))
        return self._known

    def forget(self) -> None:
        """Drop the facts, so that the next request gathers them again."""
        self._known = None


class ClusterJob(Protocol[P]):
    """How one kind of stage is done on a cluster."""

    @property
    def name(self) -> StageName: ...

    @property
    def intent(self) -> SharedIntent: ...

    def ahead(self) -> StagePlan:
        """Return the plan as it is before earlier stages are done."""

    def look(self) -> P:
        """Read small files and return the plan. Raises UsageError if what the job reads does not exist yet."""

    def found(self, plan: P) -> StageFound:
        """Return the state by the files; the cluster is not asked."""

    def recorded_name(self, plan: P) -> str | None:
        """Return the name of the run whose end is recorded by its files; None for one that records its own."""

    def ready(self, progress: ShowLine, *, is_sent: bool) -> tuple[P, Planned]:
        """Return the plan, and what is put on the cluster. `is_sent`: whether it will be. Raises SpecError if an error
        forbids it."""

    def show_end(self, plan: P) -> None:
        """Show what the job wrote."""


class JobFound(Struct, Generic[P], frozen=True, kw_only=True):
    """What the files show of a job."""

    plan: P
    state: StageFound
    problems: tuple[Problem, ...] = ()
    """Warnings about the record of its end."""


class StageOnCluster(Generic[P]):
    """A stage that is a job on the cluster: created, adopted or recognised once, then watched by this process."""

    def __init__(self, job: ClusterJob[P], *, training: str, call: ClusterCall) -> None:
        self.job, self.call = job, call
        self.run_name = training
        if job.name != "train":
            self.run_name = stage_name(run_name=training, stage=job.name)
        self._begun: Submission | None = None

    @property
    def name(self) -> StageName:
        return self.job.name

    def plan(self) -> StagePlan:
        return self.job.ahead()

    def find(self) -> StageFound:
        """Return what the files show; the first call that finds a complete result records the end of its job."""
        return found_or_missing(self._find)

    def _find(self) -> StageFound:
        files = self.look()
        self.call.listener.warn(files.problems)
        return files.state

    def look(self) -> JobFound[P]:
        """Return what the files show. The end of a job is recorded by them: no exit status is proof, and its JobSet is
        deleted some hours later."""
        plan = self.job.look()
        state = self.job.found(plan)
        problems: tuple[Problem, ...] = ()
        if state.state == "done":
            failed = None
            if state.verdict == "failed":
                failed = state.why
            problems = self._record_end(plan, failed=failed)
        return JobFound(plan=plan, state=state, problems=problems)

    def perform(self, progress: ShowLine) -> StageEnd:
        plan, ready = self.job.ready(progress, is_sent=True)
        before = self.job.found(plan)
        call = self.call
        begun = submit_plan(ready, connect=self.connect(ready), ask=call.ask, again=call.again, listener=call.listener)
        self._begun = begun
        action = stage_action(begun.action)
        match begun.action:
            case "adopted":
                named = begun.plan.run_name
                if begun.jobset:
                    named = f"JobSet {begun.jobset}"
                return StageEnd(action=action, state="running", why=f"{named} is already running")
            case "finished":
                done = self.find()
                return StageEnd(action=action, state="done", why=done.why, result=done.result, verdict=done.verdict)
            case "created" | "attempt":
                return StageEnd(action=action, state="running", why=before.why)

    def watch(self, timeout_s: float | None) -> None:
        """Wait for the job's end; one that failed after its result was complete is done. Raises as `error_of` says;
        Ctrl-C leaves the job running."""
        if self._begun is None:
            return
        limits = WaitLimits(timeout_s=timeout_s, poll_s=self.call.poll_s)
        with when_interrupted(goes_on(self.run_name)):
            waited, by_files = self.wait(self._begun, limits, log=None)
        self.call.listener.warn(waited.problems)
        error = error_of(self.run_name, DONE, waited)
        if isinstance(error, TimedOut):  # earlier stages used up a part of the time
            last_state = self.run_name
            if waited.row:
                last_state = state_line(waited.row)
            fix = "It continues without this process; the same command finds it."
            raise TimedOut(f"Timed out (--timeout): {self.run_name} is not done: {last_state}.", fix=fix)
        if by_files is not None and by_files.state.state == "done":
            self.job.show_end(by_files.plan)
        elif by_files is not None and by_files.state.state == "failed":
            raise RunFailed(f"{self.run_name}: {by_files.state.why}", fix=f"Its log: xsft logs {self.run_name}.")
        elif error is not None:
            raise error

    def wait(
        self, begun: Submission, limits: WaitLimits, *, log: ShowLine | None
    ) -> tuple[WaitResult, JobFound[P] | None]:
        """Wait for the job's end, and record it by its files. Return them too; None if it may still run, and for a run
        that records its own end."""
        after = after_plan(begun.plan, patience=limits, log=log, listener=self.call.listener)
        waited = after.wait(begun)
        self.job.intent.forget()
        return self.note_end(begun, waited)

    def note_end(self, begun: Submission, waited: WaitResult) -> tuple[WaitResult, JobFound[P] | None]:
        """Record the end as `wait` does. Nothing is recorded of a job that may still run."""
        if waited.outcome in ("timeout", "unreachable") or isinstance(begun.plan, Plan):
            return waited, None
        by_files = self.look()
        problems = by_files.problems
        if by_files.state.state != "done" and waited.outcome != "lost":
            problems = self._record_end(by_files.plan, failed=_why_failed(by_files.state, waited))
        return replace(waited, problems=(*waited.problems, *problems)), by_files

    def connect(self, plan: Planned) -> Callable[..., Submitter]:
        """Return the function that makes the submitter of the plan."""

        def connected(*, progress: ShowLine, confirm: Callable[[Proposal], None]) -> Submitter:
            submitter: Submitter
            if isinstance(plan, Plan):
                workload = self.job.intent.workload
                submitter = submitter_for(workload, plan, through_xpk=False, progress=progress, confirm=confirm)
            else:
                submitter = job_submitter(plan, progress=progress, confirm=confirm)
            # a moment more for each request, so that a look ends first, with its own words
            cluster = submitter.cluster.by(self.call.deadline.extended(1.0))
            return replace(submitter, cluster=cluster, deadline=self.call.deadline)

        return connected

    def _record_end(self, plan: P, *, failed: str | None) -> tuple[Problem, ...]:
        """Record how the job ended; return warnings. `failed`: why; None if its result is complete."""
        run_name = self.job.recorded_name(plan)
        if run_name is None:
            return ()
        return record_job_end(
            record_store(),
            output=str(self.job.intent.now().run.output),
            run_name=run_name,
            outcome="failed" if failed else "completed",
            reason=failed,
            uid=self._begun.uid if self._begun else None,
        )


def _why_failed(state: StageFound, waited: WaitResult) -> str:
    if state.state == "failed":
        return state.why
    return (waited.row and waited.row.reason) or "what it wrote is not complete"


class JobRequest(Struct, frozen=True, kw_only=True):
    """The options with which a verb asks for one job."""

    dry_run: bool
    """Whether the job is only planned."""
    wait: bool
    """Whether to wait for its end."""
    timeout_s: float | None = None
    """Seconds to wait; None: no limit."""


class JobPlanned(Struct, Generic[P], frozen=True, kw_only=True):
    """A job that would be created."""

    plan: P
    job: JobPlan[Any]


class JobSubmitted(Struct, Generic[P], frozen=True, kw_only=True):
    """A job that was created or found."""

    plan: P
    end: SubmissionEnd


ShowJob = Callable[[P, Submission], AbstractContextManager[ShowLine]]
"""Shows a job while it is waited for; yields the function that shows a line of its log."""


def do_alone(
    stage: StageOnCluster[P], request: JobRequest, *, show: ShowJob[P]
) -> JobFound[P] | JobPlanned[P] | JobSubmitted[P]:
    """Return the complete result, else the plan of the job for a dry run, else the job, which is submitted. Raises as
    `ClusterJob.ready` and `submit_cluster` do."""
    by_files = stage.look()
    if by_files.state.state == "done":
        return by_files
    call = stage.call
    with when_interrupted(NOTHING_CREATED), call.listener.working("xsft") as progress:
        plan, ready = stage.job.ready(progress, is_sent=not request.dry_run)
    if request.dry_run:
        assert isinstance(ready, JobPlan)
        return JobPlanned(plan=plan, job=ready)

    def wait(done: Submission) -> WaitResult:
        limits = WaitLimits(timeout_s=request.timeout_s, poll_s=call.poll_s)
        with show(plan, done) as log:
            return stage.wait(done, limits, log=log)[0]

    waits = wait if request.wait else None
    end = submit_cluster(ready, connect=stage.connect(ready), listener=call.listener, ask=call.ask, wait=waits)
    return JobSubmitted(plan=plan, end=end)


def cpu_job_of(done: Submission) -> CpuJob:
    assert isinstance(done.plan, JobPlan)
    assert isinstance(done.plan.job, CpuJob)
    return done.plan.job


def plan_job(job: AnyJob, *, file: str, problems: tuple[Problem, ...], progress: ShowLine) -> JobPlan[AnyJob]:
    """Return the plan of a job. Raises SpecError if its command cannot be sent, or xpk refuses its line."""
    rendering = job_rendering(job)
    (manifest,) = api.render_manifests((rendering,), progress=progress)
    return make_job_plan(job, rendered=manifest or {}, xpk_argv=rendering.xpk_argv, file=file, problems=problems)


def job_submitter(plan: JobPlan[Any], *, progress: ShowLine, confirm: Callable[[Proposal], None]) -> Submitter:
    """Return a submitter connected to the plan's cluster. `confirm`: as in `submitter_for`."""

    def replan(attempt: int) -> JobPlan[Any]:
        job: CpuJob = plan.job.attempt(attempt)
        return plan_job(job, file=plan.file, problems=plan.problems, progress=progress)

    return Submitter(
        cluster=cluster.connect(plan.run.required_place()),
        store=record_store(),
        provenance=gather_provenance(plan.file, target=plan.run.spec.target),
        replan=replan,
        progress=progress,
        confirm=confirm,
        made=lambda path: is_made(replace(plan.job, writes=path)),
    )


def is_made(job: Job) -> bool:
    """Return whether the job's result is complete: of an evaluation by its report, of an export by its record, of a
    conversion by its files."""
    match job:
        case SliceJob():
            return is_measured(job.writes)
        case CpuJob():
            if job.export is None:
                return is_whole(job.writes)
            folder = job.writes
            if job.export.inputs.hub:
                folder = job.export.directory
            return is_exported(folder, digest=job.digest)


def described_job(plan: JobPlan[CpuJob], *, name: StageName) -> StagePlan:
    """Return the plan of a CPU job as one of the stages."""
    job = plan.job
    return StagePlan(
        name=name,
        run_name=plan.run_name,
        digest=job.digest,
        writes=job.writes,
        argv=job.argv,
        xpk_argv=plan.xpk_argv,
        manifest=plan.manifest,
        notes=(f"one CPU node: {job.cpus} CPUs, {job.memory_quantity} of memory",),
        problems=plan.problems,
    )
