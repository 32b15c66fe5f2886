"""Do the stages of a workload in order, each once, and stop at one that fails or must wait. Pure: the stages themselves
act.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.amounts import duration_text
from xsft.base.errors import Refused, RunFailed, TimedOut, UsageError, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.reporting import AskUser, ProgressView, Reporter, hear_nothing
from xsft.base.stage import NEEDS, STAGES, Stage, StageAction, StageEnd, StageFound, StageName, StageState, StageVerdict
from xsft.machine.deadline import LOOKS_S, NEVER, Deadline
from xsft.machine.signals import interrupted_after
from xsft.planning import api
from xsft.stages.cluster_job import ClusterCall
from xsft.stages.stage_list import stages_of


class StageReport(Struct, frozen=True, kw_only=True):
    """The state in which a pipeline found one stage, and what it did."""

    name: StageName
    run_name: str
    """Run of the stage: `<run_name>-<stage>`; for the training, `<run_name>`."""
    action: StageAction
    """done: the result existed · created, attempt: done now, by the first or a later attempt · adopted: another process
    or an earlier call does it · waiting: an earlier stage is not done · skipped: left out by --from or --to, or not
    done on this machine."""
    why: str
    """Evidence for the action; for a failure its reason."""
    state: StageState | None = None
    """State of the stage now; None if it was not read."""
    digest: str | None = None
    """Digest of all that decides the result, 64 hex digits; None if the stage was not read, or could not be planned."""
    result: str | None = None
    """Path or address of the result; None without one."""
    verdict: StageVerdict | None = None
    """Verdict of `evaluate`; None for other stages."""


class WalkSettings(Struct, frozen=True, kw_only=True):
    """The settings of one pass through a pipeline."""

    left_s: Callable[[], float | None]
    """Return the seconds that are left; None without a limit."""
    look: Callable[[Stage], StageFound] = lambda stage: stage.find()
    """Return what a stage has done so far."""
    progress: ShowLine = hear_nothing
    tell: Callable[[StageReport], None] = hear_nothing
    """Called once per stage, as soon as its report is known."""
    begin: Callable[[Stage, StageFound], None] = hear_nothing
    """Called when the work of a stage begins, with what was found of it."""
    warn: Callable[[StageEnd], None] = hear_nothing
    """Called with the warnings of a stage that was done."""
    first: StageName = "convert"
    last: StageName = "serve"
    waits: bool = True
    """Whether to wait for a stage that a cluster or another process is doing."""


class WalkResult(Struct, frozen=True, kw_only=True):
    """The result of one pass through a pipeline."""

    reports: tuple[StageReport, ...]
    failed: XsftError | None = None
    """The error that ended it; None if it reached its end, or a stage is still running."""
    interrupted: bool = False


def walk(stages: Sequence[Stage], settings: WalkSettings) -> WalkResult:
    """Do each stage that is missing. An error of a stage ends the walk and is returned, because the reports of other
    stages stay valid. Raises KeyboardInterrupt if a stage does.
    """
    reports: list[StageReport] = []
    failed: XsftError | None = None
    interrupted, blocked = False, ""
    for stage in stages:
        if skipped := _left_out(stage.name, settings):
            report = _stage_report(stage, StageEnd(action="skipped", state="missing", why=skipped))
        elif blocked:
            report = _stage_report(stage, StageEnd(action="waiting", state="missing", why=blocked))
        else:
            end, failed = _one(stage, stages, settings)
            settings.warn(end)
            report, interrupted = _stage_report(stage, end), end.interrupted
            blocked = _blocking_reason(report, failed)
        reports.append(report)
        settings.tell(report)
    return WalkResult(reports=tuple(reports), failed=failed, interrupted=interrupted)


def _left_out(name: StageName, settings: WalkSettings) -> str:
    """Return why the user left the stage out; empty if not."""
    if STAGES.index(name) < STAGES.index(settings.first):
        return f"before --from {settings.first}"
    if STAGES.index(name) > STAGES.index(settings.last):
        return f"after --to {settings.last}"
    return ""


def _one(stage: Stage, stages: Sequence[Stage], settings: WalkSettings) -> tuple[StageEnd, XsftError | None]:
    """Return how the stage ended, and the error that ends the walk."""
    end = StageEnd(action="waiting", state="missing", why="")
    try:
        undone = tuple(_undone_needs(stage.name, stages, settings))
        if undone:
            needed, why = undone[0]
            first, _ = undone[-1]
            raise Refused(
                f"{stage.name} needs the result of {needed}, which is not done: {why}.",
                fix=f"Start at {first}: --from {first}. Without --from, all missing stages are done.",
                id="stage-not-done",
            )
        end = _do_stage(stage, settings)
        while settings.waits and end.state == "running":
            stage.watch(settings.left_s())
            end = _end_of_begun_stage(end, stage, settings)
    except XsftError as failed:
        if isinstance(failed, RunFailed):
            end = replace(end, state="failed")
        return replace(end, why=failed.message), failed
    return end, _error_of(stage, end)


def _undone_needs(name: StageName, stages: Sequence[Stage], settings: WalkSettings) -> Iterator[tuple[StageName, str]]:
    """Yield the stage whose result is read, then the one that it needs itself, and so on, up to the first that is done
    or was not left out; with the reason why it is not done."""
    needed = next((candidate for candidate in stages if candidate.name == NEEDS.get(name)), None)
    if needed is None or not _left_out(needed.name, settings):
        return
    state = settings.look(needed)
    if state.state != "done":
        yield needed.name, state.why
        yield from _undone_needs(needed.name, stages, settings)


def _do_stage(stage: Stage, settings: WalkSettings) -> StageEnd:
    """Do the stage unless it is done, or another process is doing it."""
    before = settings.look(stage)
    return replace(_begin_stage(stage, before, settings), digest=before.digest)


def _begin_stage(stage: Stage, before: StageFound, settings: WalkSettings) -> StageEnd:
    match before.state:
        case "done":
            return StageEnd(action="done", state="done", why=before.why, result=before.result, verdict=before.verdict)
        case "running":
            return StageEnd(action="adopted", state="running", why=before.why)
        case "torn" | "failed" | "missing":
            if not before.is_by_hand:
                settings.begin(stage, before)
            return stage.perform(settings.progress)


def _end_of_begun_stage(end: StageEnd, stage: Stage, settings: WalkSettings) -> StageEnd:
    """Return the end of a stage that no longer runs. If another process began it without ending it, do it now."""
    now = settings.look(stage)
    if now.state == "done" or end.action != "adopted":
        return replace(end, state=now.state, why=now.why, result=now.result, verdict=now.verdict)
    return _do_stage(stage, settings)


def _error_of(stage: Stage, end: StageEnd) -> XsftError | None:
    if end.interrupted or end.state == "running" or end.action == "skipped":
        return None
    if end.state != "done":
        return RunFailed(f"{stage.run_name}: {end.why}", fix=end.fix)
    if end.verdict == "failed":
        fix = (
            f"Read the answers in {end.result}. Train longer or on other data, or change the rules of stages.evaluate."
        )
        return RunFailed(f"{stage.run_name}: {end.why}", fix=fix, id="verdict-failed")
    return None


def _blocking_reason(report: StageReport, failed: XsftError | None) -> str:
    """Return why later stages wait; empty if they need not."""
    if isinstance(failed, TimedOut) or (failed is None and report.state == "running"):
        return f"{report.name} is not done yet"
    if failed is not None:
        return f"{report.name} failed"
    if report.state == "done":
        return ""
    return f"{report.name} is not done"


def _stage_report(stage: Stage, end: StageEnd) -> StageReport:
    looked = end.action not in ("skipped", "waiting") or bool(end.state != "missing")
    return StageReport(
        name=stage.name,
        run_name=stage.run_name,
        action=end.action,
        why=end.why,
        state=end.state if looked else None,
        digest=end.digest,
        result=end.result,
        verdict=end.verdict,
    )


class PipelineRequest(Struct, frozen=True, kw_only=True):
    """The stages to run, and how long to wait for them."""

    first: StageName = "convert"
    last: StageName = "serve"
    waits: bool = True
    """Whether to wait for a stage that a cluster is doing."""
    timeout_s: float | None = None
    poll_s: float
    again: bool = False
    """As in `submit_cluster`."""


def run_stages(
    workload: api.LoadedWorkload,
    request: PipelineRequest,
    *,
    ask: AskUser | None,
    listener: Reporter,
    begin: Callable[[Stage, StageFound], None],
    tell: Callable[[StageReport], None],
) -> WalkResult:
    """Return what each stage did; an error of a stage is returned, too. `begin`, `tell`: as in `WalkSettings`.

    Raises SpecError for errors of the whole workload, before the first stage begins; UsageError if the workload has
    none of the requested stages; TimedOut.
    """
    deadline = NEVER if request.timeout_s is None else Deadline.after(request.timeout_s)
    (intent,) = api.intend((workload,))
    api.admitted_problems(tuple(p.in_file(workload.file) for p in intent.problems if p.kind != "unmade"))
    if not request.waits and workload.spec.on_this_machine:
        raise UsageError(
            "--no-wait: on this machine the stages run in this process, and would end with it.",
            fix="Leave it out; `nohup xsft run FILE &` continues without the terminal.",
        )
    call = ClusterCall(ask=ask, again=request.again, poll_s=request.poll_s, listener=listener, deadline=deadline)
    stages = stages_of(workload, run_name=intent.run.run_name, call=call, known=intent)
    _refuse_unplanned(stages, request, file=workload.file)
    try:
        with (
            interrupted_after(request.timeout_s if workload.spec.on_this_machine else None),
            listener.working("run") as progress,
        ):
            settings = WalkSettings(
                left_s=lambda: None if request.timeout_s is None else deadline.left_s,
                look=lambda stage: _find_stage(stage, workload, deadline, progress),
                progress=progress,
                begin=begin,
                tell=tell,
                warn=lambda end: listener.warn(end.warnings),
                first=request.first,
                last=request.last,
                waits=request.waits,
            )
            walked = walk(stages, settings)
    except KeyboardInterrupt:
        if deadline.left_s:
            raise
        raise _timed_out(request, file=workload.file) from None
    if walked.interrupted and not deadline.left_s:
        raise _timed_out(request, file=workload.file)
    return walked


def _find_stage(stage: Stage, workload: api.LoadedWorkload, deadline: Deadline, progress: ProgressView) -> StageFound:
    """Return what the stage has done so far; on a cluster and in a bucket, by the deadline. Raises TimedOut."""
    if workload.spec.on_this_machine:
        return stage.find()
    state = deadline.sooner(LOOKS_S).look(f"the state of {stage.run_name}", stage.find, say=progress)
    progress.pause()  # a line on the stage follows
    return state


def _refuse_unplanned(stages: tuple[Stage, ...], request: PipelineRequest, *, file: str) -> None:
    """Raise the error of the first requested stage after the training that cannot be planned. Raises UsageError if the
    workload has none of the requested stages.
    """
    requested = STAGES[STAGES.index(request.first) : STAGES.index(request.last) + 1]
    names = [stage.name for stage in stages]
    if not set(names) & set(requested):
        raise UsageError(
            f"{file} has no stage from {request.first} to {request.last}; it has {', '.join(names)}.",
            fix="Name one of these, or add the stage under `stages:` of the workload.",
        )
    for stage in stages:
        if stage.name in requested and stage.name not in ("convert", "train"):
            stage.plan()


def _timed_out(request: PipelineRequest, *, file: str) -> TimedOut:
    return TimedOut(
        f"Timed out after {duration_text(request.timeout_s or 0)}: the stage was stopped.",
        fix=f"What was saved stays; the same command continues: xsft run {file}",
    )
