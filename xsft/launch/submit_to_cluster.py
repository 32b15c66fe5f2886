"""The cluster side of `xsft submit`: create the plan's JobSet once, and wait for its end on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.acceptance import for_submission
from xsft.base.amounts import counted_text, duration_text
from xsft.base.errors import Refused, XsftError
from xsft.base.problems import Problem
from xsft.base.reporting import AskUser, ProgressView
from xsft.launch.listener import ActionListener
from xsft.launch.proposal import Proposal
from xsft.launch.submission import Submission, Submitter
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.slicejob import SliceJob
from xsft.machine.interrupts import NOTHING_CREATED, goes_on, when_interrupted
from xsft.planning.steps import Plan, Planned
from xsft.runs.wait_goals import DONE
from xsft.runs.waiting import WaitResult, error_of


class ConnectSubmitter(Protocol):
    """Function that makes the submitter for a plan."""

    def __call__(self, *, progress: Callable[[str], None], confirm: Callable[[Proposal], None]) -> Submitter: ...


WaitForRun = Callable[[Submission], WaitResult]
"""Function that waits for the end of the run (`submit.wait.WaitOptions.wait`)."""


class SubmissionEnd(Struct, frozen=True, kw_only=True):
    """A submission, and how the run ended if that was waited for."""

    done: Submission
    waited: WaitResult | None = None
    """None if the end was not waited for, or the run had finished before."""
    failed: XsftError | None = None
    """The error of a run that did not succeed."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of the submission, of the wait for its end, and of its failure."""
        waited, failed = self.waited, self.failed
        return (*self.done.problems, *(waited.problems if waited else ()), *(failed.problems if failed else ()))


def submit_cluster(
    plan: Planned,
    *,
    connect: ConnectSubmitter,
    listener: ActionListener,
    ask: AskUser | None = None,
    wait: WaitForRun | None = None,
) -> SubmissionEnd:
    """Create, adopt or recognise the run; with `wait`, wait for its end.

    `ask`: asks the user whether to create it; None: without asking.
    Raises as `connect` and `Submitter.submit` do, Refused if the answer is no.
    """
    done = submit_plan(plan, connect=connect, ask=ask, listener=listener)
    if wait is None:
        return SubmissionEnd(done=done)
    if done.action != "finished":
        listener.created(done)
    with when_interrupted(goes_on(plan.run_name)):
        waited = wait(done)
    if done.action == "finished" and waited.outcome == "reached":
        listener.warn(waited.problems)
        return SubmissionEnd(done=replace(done, problems=(*done.problems, *waited.problems)))
    return SubmissionEnd(done=done, waited=waited, failed=error_of(plan.run_name, DONE, waited))


def submit_plan(
    plan: Planned, *, connect: ConnectSubmitter, ask: AskUser | None, listener: ActionListener
) -> Submission:
    """Create, adopt or recognise the run; report what it takes and the warnings. Raises as `submit_cluster` does."""
    listener.submitting(plan)
    reporter = _WarningReporter(listener)
    warnings = tuple(p for p in for_submission(plan.problems) if p.severity == "warning")
    try:
        with listener.working("submit") as progress:
            asking = partial(_confirm, ask=ask, progress=progress, reporter=reporter, warnings=warnings)
            with when_interrupted(NOTHING_CREATED):
                submitter = connect(progress=progress, confirm=asking)
            done = submitter.submit(plan)
    except XsftError:
        reporter.tell(warnings)
        raise
    _warn(done, warnings, reporter)
    return done


class _WarningReporter:
    """Reporter of warnings, each once: those shown with the question are not repeated after the answer."""

    def __init__(self, listener: ActionListener) -> None:
        self.listener = listener
        self._told: set[Problem] = set()

    def tell(self, problems: Iterable[Problem]) -> None:
        new = [p for p in problems if p.severity == "warning" and p not in self._told]
        self._told |= set(new)
        self.listener.warn(new)


def _confirm(
    proposal: Proposal,
    *,
    ask: AskUser | None,
    progress: ProgressView,
    reporter: _WarningReporter,
    warnings: tuple[Problem, ...],
) -> None:
    """Report what would be created and ask. Raises Refused if the answer is no."""
    if ask is None:
        return
    progress.pause()
    reporter.tell((*warnings, *proposal.problems))
    reporter.listener.proposed(proposal)
    with when_interrupted(NOTHING_CREATED):
        agreed = ask(f"{_takes(proposal.plan)}? [y/N] ")
    if not agreed:
        raise Refused("Nothing was created.", fix="Answer y, or pass --yes.", id="not-confirmed")


def _takes(plan: Planned) -> str:
    run = plan.run
    match plan if isinstance(plan, Plan) else plan.job:
        case Plan():
            described = run.slice.xpk_type if run.slice else "?"
            return f"Take {run.chips} chips ({run.num_slices} x {described}) from queue {run.queue}"
        case SliceJob() as job:
            described = run.slice.xpk_type if run.slice else "?"
            most = duration_text(job.limit_s)
            return f"Take {run.chips} chips ({run.num_slices} x {described}) for at most {most}, from queue {run.queue}"
        case CpuJob() as job if run.slice:
            return f"Take {run.chips} chips ({run.slice.xpk_type}) for {job.work} on one host, from queue {run.queue}"
        case CpuJob() as job:
            return f"Take {job.cpus} CPUs and {job.memory_quantity} of memory from queue {run.queue}"


def _warn(done: Submission, of_the_plan: tuple[Problem, ...], reporter: _WarningReporter) -> None:
    """Report the warnings; those of the plan only for a new JobSet, since they change nothing about an existing one."""
    new = done.action in ("created", "attempt")
    reporter.tell((*(of_the_plan if new else ()), *done.problems))
    reporter.listener.warn([p for p in done.problems if p.severity == "note" and p.kind == "unread"])
    if of_the_plan and not new:
        count = counted_text(len(of_the_plan), "warning")
        reporter.listener.say(f"{count} of the workload, shown when the run was created: xsft plan {done.plan.file}")
