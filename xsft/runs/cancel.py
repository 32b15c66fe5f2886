"""Cancel one run: delete exactly its JobSet, or its server's Deployment, by its UID, after saying what that loses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from xsft.base.errors import Refused, Unreachable
from xsft.base.problems import Problem
from xsft.base.reporting import ShowWaiting, wait_silently
from xsft.cluster.observation import Observation, RunObject
from xsft.machine.signals import when_interrupted
from xsft.runs.lookup import one_run, silent
from xsft.runs.losing import Loss, SavedSteps, loss_of, loss_text, may_lose
from xsft.runs.read_all import RunAccess
from xsft.runs.rows import Row, state_line

ConfirmCancel = Callable[[tuple[str, ...]], None]
"""Function that gets the description of what would be cancelled and lost. Raises Refused if the user declines."""


class CancelResult(Struct, frozen=True, kw_only=True):
    action: Literal["cancelled", "nothing"]
    row: Row
    jobset: RunObject | None
    why: str = ""
    """Why there was nothing to cancel, for `nothing`."""
    loss: Loss | None = None
    """What was lost, for `cancel_run`."""
    problems: tuple[Problem, ...] = ()


def cancel_run(
    name: str, *, runs: RunAccess, agree: ConfirmCancel, waiting: ShowWaiting = wait_silently
) -> CancelResult:
    """Cancel the run and return what was done. Raises as `cancel`, and what `agree` raises."""
    with waiting("asking the clusters") as say:
        runs.listen(say)
        hit = one_run(name, runs.look())
    if hit.row.ended:
        return CancelResult(action="nothing", row=hit.row, jobset=None, why=f"it has ended: {hit.row.state}")
    if hit.row.on_this_machine:
        return _cancel_local(hit.seen, hit.row, runs=runs, agree=agree, waiting=waiting)
    if mute := silent(hit.seen):  # known only from an earlier call: stale facts delete nothing
        raise Unreachable(
            f"{hit.row.run_name} may still be running: its cluster {hit.row.cluster} does not answer ({mute.clause}).",
            fix="Nothing was deleted. Try again when it answers.",
        )
    jobset = hit.seen.jobset
    if jobset is None:
        what = "Deployment" if hit.row.stage == "serve" else "JobSet"
        return CancelResult(action="nothing", row=hit.row, jobset=None, why=f"it has no {what} on its cluster")
    if jobset.deleting_at:
        why = f"it is being deleted since {jobset.deleting_at}"
        return CancelResult(action="nothing", row=hit.row, jobset=jobset, why=why)
    loss = _loss(hit.seen, hit.row, runs, waiting)
    agree(_describe_loss(hit.row, jobset, loss))
    with when_interrupted(f"{jobset.name} was being deleted: check with xsft status {hit.row.run_name}."):
        done = runs.delete(hit.seen, jobset)
    if done == "deleted":
        problems = runs.record_cancel(hit.seen, jobset)
        return CancelResult(action="cancelled", row=hit.row, jobset=jobset, loss=loss, problems=problems)
    now = f"; another {jobset.kind} has its name now, and was not deleted" if done == "other" else ""
    why = "it has just ended" if done == "ended" else f"another client deleted it just now{now}"
    return CancelResult(action="nothing", row=hit.row, jobset=jobset, why=why)


def _cancel_local(
    observation: Observation, row: Row, *, runs: RunAccess, agree: ConfirmCancel, waiting: ShowWaiting
) -> CancelResult:
    if observation.record is None or not observation.record.alive:
        return CancelResult(action="nothing", row=row, jobset=None, why="no xsft process is running it")
    loss = _loss(observation, row, runs, waiting)
    agree(_describe_loss(row, None, loss))
    if not runs.stop_local(observation):
        raise Refused(
            f"{row.run_name} runs on this machine, but its process could not be identified.",
            fix="Press Ctrl-C where it was started.",
        )
    return CancelResult(action="cancelled", row=row, jobset=None, loss=loss)


def _loss(observation: Observation, row: Row, runs: RunAccess, waiting: ShowWaiting) -> Loss:
    """Return what the run would lose. It reads the checkpoints, because the end of a log may not show the last save."""
    saved = SavedSteps()
    if may_lose(observation, row):
        with waiting("looking for its checkpoints"):
            saved = runs.saved(observation)
    return loss_of(observation, row, saved)


def _describe_loss(row: Row, jobset: RunObject | None, loss: Loss) -> tuple[str, ...]:
    """Return lines that say what the run is, what cancelling loses and what it frees."""
    lines = [state_line(row)]
    if jobset is not None:
        origin = "" if jobset.ours else " (not created by xsft)"
        where = f"namespace {jobset.namespace} of {row.cluster}"
        lines.append(f"  {jobset.kind} {jobset.name}, uid {jobset.uid}, {where}{origin}")
        if jobset.serves:
            lines.append("  its Service and PodDisruptionBudget are deleted with it; the export is kept")
    if jobset is None or not jobset.serves:
        lines.append(f"  {loss_text(loss)}")
    if loss.chips:
        lines.append(f"  {loss.chips} chips would be freed")
    return tuple(lines)
