"""Do the stages of a workload in order, each once."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from xsft.base.amounts import duration_text
from xsft.base.errors import TimedOut, UsageError
from xsft.base.reporting import AskUser, ProgressView, Reporter
from xsft.base.stage import STAGES, Stage, StageFound, StageName
from xsft.machine.deadline import LOOKS_S, NEVER, Deadline
from xsft.machine.signals import interrupted_after
from xsft.planning import api
from xsft.stages.cluster_job import ClusterCall
from xsft.stages.stage_list import stages_of
from xsft.stages.walk import StageReport, WalkResult, WalkSettings, walk


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
