"""The stages of a workload that runs on a cluster: each stage is one object on the cluster, created once and watched by
this process."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.errors import RunFailed, TimedOut, Unknown
from xsft.base.names import stage_name
from xsft.base.reporting import AskUser, Reporter
from xsft.base.stage import StageEnd, StageFound, StageName, StagePlan, StageState, stage_action
from xsft.launch.submission import Submission, Submitter
from xsft.launch.submit import ConnectSubmitter, submit_plan, submitter_for
from xsft.launch.wait_for_end import after_plan
from xsft.launcher.cpujob import CpuJob
from xsft.machine.deadline import NEVER, Deadline
from xsft.machine.interrupts import goes_on, when_interrupted
from xsft.machine.objects import latest_step
from xsft.planning import api
from xsft.planning.api import LoadedWorkload
from xsft.planning.steps import Intent, JobPlan, Plan, Planned
from xsft.records.record_files import record_store
from xsft.runs.record_end import record_job_end
from xsft.runs.rows import is_worthless, state_line
from xsft.runs.waiting import DONE, WaitLimits, error_of
from xsft.stages import jobs
from xsft.stages.claims import read_claim, take_claim, under_claim
from xsft.stages.convert import conversion_found
from xsft.stages.convert_here import look_for_cluster, planned_conversion
from xsft.stages.local_stages import training_plan
from xsft.weights.conversion_plan import ConversionPlan


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

    def __init__(self, workload: LoadedWorkload, *, known: Intent | None) -> None:
        self.workload = workload
        self._known = known

    def now(self) -> Intent:
        if self._known is None:
            (self._known,) = api.intend((self.workload,))
        return self._known

    def forget(self) -> None:
        """Drop the facts, so that the next request gathers them again."""
        self._known = None


class ClusterStage:
    """A stage that is one object on the cluster: created, adopted or recognised once, then watched by this process."""

    name: StageName

    def __init__(self, asked: SharedIntent, *, training: str, call: ClusterCall) -> None:
        self.asked, self.call = asked, call
        self.run_name = training if self.name == "train" else stage_name(run_name=training, stage=self.name)
        self.done: Submission | None = None

    def submit(self, plan: Planned, *, connect: ConnectSubmitter, why: str) -> StageEnd:
        """Create, adopt or recognise the object, as `submit_plan` does. `why`: the reason to create it."""

        def connected(**how: Any) -> Submitter:
            return replace(connect(**how), deadline=self.call.deadline)

        call = self.call
        done = self.done = submit_plan(plan, connect=connected, ask=call.ask, again=call.again, listener=call.listener)
        named = f"JobSet {done.jobset}" if done.jobset else done.plan.run_name
        reason = f"{named} is already running" if done.action == "adopted" else why
        state: StageState = "done" if done.action == "finished" else "running"
        return StageEnd(action=stage_action(done.action), state=state, why=reason, warnings=())

    def watch(self, timeout_s: float | None) -> None:
        """Wait for the object's end. Raises as `error_of` says; Ctrl-C leaves it running."""
        if self.done is None:
            return
        patience = WaitLimits(timeout_s=timeout_s, poll_s=self.call.poll_s)
        after = after_plan(self.done.plan, patience=patience, log=None, listener=self.call.listener)
        with when_interrupted(goes_on(self.run_name)):
            waited = after.wait(self.done)
        self.asked.forget()
        self.call.listener.warn(waited.problems)
        failed = error_of(self.run_name, DONE, waited)
        if isinstance(failed, TimedOut):  # earlier stages used up a part of the time
            seen = state_line(waited.row) if waited.row else self.run_name
            fix = "It continues without this process; the same command finds it."
            raise TimedOut(f"Timed out (--timeout): {self.run_name} is not done: {seen}.", fix=fix)
        if failed:
            raise failed

    def record_end(self, output: str, run_name: str, *, failed: str | None) -> None:
        """Record how the job ended. `failed`: why; None if its result is complete."""
        problems = record_job_end(
            record_store(),
            output=output,
            run_name=run_name,
            outcome="failed" if failed else "completed",
            reason=failed,
            uid=self.done.uid if self.done else None,
        )
        self.call.listener.warn(problems)


class ConvertOnCluster(ClusterStage):
    """Conversion of the workload's weights by a CPU job of its cluster."""

    name: StageName = "convert"

    def plan(self) -> StagePlan:
        intent = self.asked.now()
        made = planned_conversion(self.asked.workload, intent)  # the hub is asked when the conversion is submitted
        file = self.asked.workload.file
        with self.call.listener.working("xsft") as progress:
            plan = jobs.plan_conversion(made, intent.run, file=file, problems=(), progress=progress)
        return job_plan(plan, name=self.name)

    def find(self) -> StageFound:
        made = self._conversion_plan()
        if made.whole:
            self.record_end(made.output, made.run_name, failed=None)
        return conversion_found(made)

    def perform(self, progress: ShowLine) -> StageEnd:
        file = self.asked.workload.file
        made, intent, problems = look_for_cluster(self.asked.workload, self.call.listener)
        made = under_claim(made, take_claim(record_store(), made))
        plan = jobs.plan_conversion(made, intent.run, file=file, problems=problems, progress=progress)
        return self.submit(plan, connect=partial(jobs.submitter_for, plan), why=conversion_found(made).why)

    def watch(self, timeout_s: float | None) -> None:
        """Wait for the job's end; a job that failed after it saved a complete checkpoint is done."""
        try:
            super().watch(timeout_s)
        except (RunFailed, Unknown) as failed:
            made = self._conversion_plan()
            if made.whole is None:
                self.record_end(made.output, made.run_name, failed=failed.message)
                raise

    def _conversion_plan(self) -> ConversionPlan:
        """Return the conversion under the name of the run that makes it, which another workload may have begun."""
        made = planned_conversion(self.asked.workload, self.asked.now())
        return under_claim(made, read_claim(record_store(), made))


def job_plan(plan: JobPlan[CpuJob], *, name: StageName) -> StagePlan:
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


class TrainOnCluster(ClusterStage):
    """Training on the workload's slices."""

    name: StageName = "train"

    def plan(self) -> StagePlan:
        return training_plan(self._plan())

    def find(self) -> StageFound:
        """Return whether the last checkpoint is saved by this very workload; the cluster is not asked."""
        intent, store = self.asked.now(), record_store()
        output, steps_asked, digest = str(intent.run.output), intent.run.spec.train.steps, intent.spec_digest
        step = latest_step(store.objects_at(output), output=output, run_name=self.run_name)
        if step is None:
            return StageFound(state="missing", why="no checkpoint is saved", digest=digest)
        last = next(iter(reversed(store.read_run(output, self.run_name))), None)
        same = last is not None and last.spec_digest == digest
        if step < steps_asked or not same or (last and is_worthless(last.last.state_reason)):
            why = f"its last checkpoint is step {step} of {steps_asked}"
            return StageFound(state="missing", why=why, digest=digest)
        saved = f"{output.rstrip('/')}/{self.run_name}/checkpoints/{step}"
        return StageFound(state="done", why=f"its checkpoint of step {step} is saved", result=saved, digest=digest)

    def perform(self, progress: ShowLine) -> StageEnd:
        made = self._plan(progress)
        api.accepted_problems(made)
        connect = partial(submitter_for, self.asked.workload, made, through_xpk=False)
        end = self.submit(made, connect=connect, why=self.find().why)
        return end if end.state == "running" else replace(end, why=self.find().why, result=self.find().result)

    def _plan(self, progress: ShowLine = lambda _line: None) -> Plan:
        return api.plan((self.asked.workload,), progress=progress)[0]
