"""The cluster side of `xsft submit`: create the plan's JobSet once, and wait for its end on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.acceptance import for_submission
from xsft.base.amounts import counted_text, duration_text
from xsft.base.errors import Refused, UsageError, UserRefusal, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.base.reporting import AskUser, PlainView, ProgressView, Reporter, WorkEvent
from xsft.checks.demand import Demand
from xsft.checks.parsed import check_parser_asked
from xsft.checks.pod_identity import PodRights
from xsft.cluster import cluster
from xsft.environments import environments
from xsft.launch import recording
from xsft.launch.identity import Proposal
from xsft.launch.local_run import LocalResult, train_here
from xsft.launch.submission import Submission, Submitter
from xsft.launch.through_xpk import NOTE, ThroughXpk, differences, refuse_losses
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.slicejob import SliceJob
from xsft.machine.parallel import StartedCall, start
from xsft.machine.process import own_environment
from xsft.machine.signals import NOTHING_CREATED, goes_on, when_interrupted
from xsft.planning.api import LoadedWorkload, accepted_problems, plan
from xsft.planning.installed_maxtext import ask_maxtext, ask_rows
from xsft.planning.steps import Plan, Planned
from xsft.records import record_files
from xsft.runs.rows import Row
from xsft.runs.waiting import DONE, WaitResult, error_of


class SubmissionBegins(WorkEvent, frozen=True, kw_only=True):
    """Event: the plan is submitted; nothing was asked of the cluster yet."""

    plan: Planned


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
        """Return the problems of the submission, and of the wait for its end."""
        return (*self.done.problems, *(self.waited.problems if self.waited else ()))

    @property
    def run(self) -> Row | None:
        """Return the run as it was read last; None if it was not waited for."""
        return self.waited.row if self.waited else None


def submit_cluster(
    plan: Planned,
    *,
    connect: ConnectSubmitter,
    listener: Reporter,
    ask: AskUser | None = None,
    again: bool = False,
    wait: WaitForRun | None = None,
) -> SubmissionEnd:
    """Create, adopt or recognise the run; with `wait`, wait for its end.

    `ask`: asks the user whether to create it; None: without asking. `again`: without asking, also create an attempt
    that must end as the last one did.
    Raises as `connect` and `Submitter.submit` do, Refused if the answer is no.
    """
    done = submit_plan(plan, connect=connect, ask=ask, again=again, listener=listener)
    listener.tell(done)
    if wait is None:
        return SubmissionEnd(done=done)
    with when_interrupted(goes_on(plan.run_name)):
        waited = wait(done)
    if done.action == "finished" and waited.outcome == "reached":
        listener.warn(waited.problems)
        return SubmissionEnd(done=replace(done, problems=(*done.problems, *waited.problems)))
    return SubmissionEnd(done=done, waited=waited, failed=error_of(plan.run_name, DONE, waited))


def submit_plan(
    plan: Planned, *, connect: ConnectSubmitter, ask: AskUser | None, listener: Reporter, again: bool = False
) -> Submission:
    """Create, adopt or recognise the run; report what it takes and the warnings. Raises as `submit_cluster` does."""
    listener.tell(SubmissionBegins(plan=plan))
    reporter = _WarningReporter(listener)
    warnings = tuple(p for p in for_submission(plan.problems) if p.severity == "warning")
    try:
        with listener.working("submit") as progress:
            asking = partial(_confirm, ask=ask, again=again, progress=progress, reporter=reporter, warnings=warnings)
            with when_interrupted(NOTHING_CREATED):
                submitter = connect(progress=progress, confirm=asking)
            done = submitter.submit(plan)
    except XsftError:
        reporter.tell(warnings)
        raise
    if done.action in ("created", "attempt"):
        reporter.tell((*warnings, *done.problems))
    else:
        reporter.tell(done.problems)
    listener.warn([p for p in done.problems if p.severity == "note" and p.kind == "unread"])
    # The plan's warnings change nothing about a JobSet that exists.
    if warnings and done.action not in ("created", "attempt"):
        count = counted_text(len(warnings), "warning")
        listener.say(f"{count} of the workload, shown when the run was created: xsft plan {done.plan.file}")
    return done


class _WarningReporter:
    """Reporter of warnings, each once: those shown with the question are not repeated after the answer."""

    def __init__(self, listener: Reporter) -> None:
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
    again: bool,
    progress: ProgressView,
    reporter: _WarningReporter,
    warnings: tuple[Problem, ...],
) -> None:
    """Report what would be created and ask. Raises UserRefusal if the answer is no, Refused for an attempt that must
    end as the last one did, if nobody is asked.
    """
    if ask is None:
        end = proposal.world.last_end
        if end and proposal.repeats and not again:
            name = proposal.plan.run_name
            raise Refused(
                f"Attempt {end.attempt} of {name} ended by its own error before anything was saved, and the workload "
                f"is unchanged, so the next attempt would end so too: {end.message}",
                fix=f"{end.fix} A changed workload keeps the name {name}. To try the same once more, pass --again.",
                id="ends-again",
            )
        return
    progress.pause()
    reporter.tell((*warnings, *proposal.problems))
    reporter.listener.tell(proposal)
    with when_interrupted(NOTHING_CREATED):
        agreed = ask(f"{_takes(proposal.plan)}? [y/N] ")
    if not agreed:
        raise UserRefusal("Nothing was created.")


def _takes(plan: Planned) -> str:
    run = plan.run
    match plan if isinstance(plan, Plan) else plan.job:
        case Plan():
            described = run.slice.xpk_type if run.slice else "?"
            return f"Take {run.chips} chips ({run.num_slices} x {described}) from queue {run.queue}"
        case SliceJob() as job:
            described = run.slice.xpk_type if run.slice else "?"
            limit = duration_text(job.limit_s)
            return (
                f"Take {run.chips} chips ({run.num_slices} x {described}) for at most {limit}, from queue {run.queue}"
            )
        case CpuJob() as job if run.slice:
            return f"Take {run.chips} chips ({run.slice.xpk_type}) for {job.work} on one host, from queue {run.queue}"
        case CpuJob() as job:
            return f"Take {job.cpus} CPUs and {job.memory_quantity} of memory from queue {run.queue}"


def submitter_for(
    workload: LoadedWorkload,
    planned: Plan,
    *,
    through_xpk: bool,
    progress: ShowLine,
    confirm: Callable[[Proposal], None] = lambda _proposal: None,
) -> Submitter:
    """Return a submitter connected to the plan's cluster. Raises Refused if xpk was requested and would lose a setting.

    `confirm`: asked just before something is created; raises Refused if the answer is no.
    """
    place = planned.run.required_place()
    if through_xpk and planned.xpk_argv is None:
        raise UsageError(f"--through-xpk: {planned.target} is another launcher.", fix="Omit it.")
    if through_xpk:
        refuse_losses(planned)

    def ask_programs() -> tuple[Problem, ...]:
        from xsft.planning.hub import tokenizer_of_pods  # through requests

        return (*tokenizer_of_pods(planned.run), *ask_maxtext((planned,))[0], *ask_rows(planned))

    answer = start(ask_programs)
    submitter = Submitter(
        cluster=cluster.connect(place),
        store=record_files.record_store(),
        provenance=recording.gather_provenance(planned.file, target=planned.target),
        replan=lambda attempt: plan((workload,), attempt=attempt)[0],
        progress=progress,
        confirm=confirm,
        rights=_rights,
        parsed=lambda: parser_answer(answer),
    )
    if not through_xpk:
        return submitter
    xpk = environments.ensure("xpk", progress=progress)
    create = ThroughXpk(python=xpk.python, env=own_environment())
    return replace(submitter, create=create, compare=differences, notes=(NOTE,))


def _rights(source: str, demand: Demand) -> PodRights | None:
    from xsft.launch.admission import connect_iam  # through google-auth

    iam = connect_iam(own_environment())
    return iam.rights(source, demand) if iam else None


PARSER_WAIT_S = 60.0
"""Seconds that a submission waits for MaxText's parser, which runs in parallel with its other reads."""


def parser_answer(started: StartedCall[tuple[Problem, ...]], *, within_s: float = PARSER_WAIT_S) -> tuple[Problem, ...]:
    """Return the problems that MaxText's parser found (it started before the cluster was read); a note if it takes too
    long."""
    if started.ended(within_s):
        return started.result()
    why = f"it did not answer within {within_s:g} s; `xsft check --deep FILE` waits longer"
    return tuple(check_parser_asked(f"{why}, and the next submission uses its answer"))


def submit(
    workload: LoadedWorkload, *, through_xpk: bool = False, again: bool = False, progress: ShowLine = lambda _line: None
) -> Submission | LocalResult:
    """Execute the workload's plan: create it on its cluster, once, or train on this machine to its end.

    `again`: also create an attempt that must end as the last one did. Raises SpecError if the plan has errors, and as
    `Submitter.submit` and `run_local` do. The result of a local run has all warnings; it is also returned for a run
    that failed.
    """
    (planned,) = plan((workload,), progress=progress)
    accepted_problems(planned)
    warnings: list[Problem] = []
    listener = Reporter(working=lambda _title: nullcontext(PlainView(show=progress)), warn=warnings.extend)
    if planned.on_this_machine:
        result, _picture = train_here(planned, machine=None, listener=listener)
        return replace(result, warnings=tuple(dict.fromkeys((*result.warnings, *warnings))))
    connect = partial(submitter_for, workload, planned, through_xpk=through_xpk)
    return submit_plan(planned, connect=connect, ask=None, again=again, listener=listener)
