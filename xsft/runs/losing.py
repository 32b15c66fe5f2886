"""Compute what cancelling a run would lose. A value that was not read is unknown, never zero. Pure."""

from __future__ import annotations

from msgspec import Struct

from xsft.base.amounts import seconds_between
from xsft.cluster.observation import Observation
from xsft.runs.classify import admitted_at
from xsft.runs.pod_reasons import current
from xsft.runs.rows import Row

NOT_BEGUN = ("admitted", "no-jobs", "workers-after-head")
"""Reasons of `starting` in which the trainer does not run: it has no pods, or waits for its workers."""

FIRST_POD_S = 60.0
"""A pod created within these seconds after Kueue admitted its run is the first one in its place; a replaced pod is
younger. MaxText needs longer to complete a step that could be lost."""


class SavedSteps(Struct, frozen=True, kw_only=True):
    """The checkpoints and the metrics in a run's output, as read for this purpose."""

    step: int | None = None
    """Step of the latest complete checkpoint; None if there is none, or if they were not read."""
    reached: int | None = None
    """Last step in the metrics, which may lack the newest ones; None if there is none, or if they were not read."""
    why: str = ""
    """Why they were not read; empty if they were."""


class Loss(Struct, frozen=True, kw_only=True):
    step: int | None
    saved_step: int | None
    """Step of the last checkpoint; None if there is none, or if unknown."""
    steps: int | None
    """Steps since the last checkpoint; None if unknown."""
    why: str
    """Why the loss is unknown; empty if it is known."""
    chips: int | None
    """Chips that become free; None if the TPU type is unknown."""
    begun: bool = True
    """Whether the trainer may run, or have run since the run was admitted."""


def may_lose(observation: Observation, row: Row) -> bool:
    """Return whether cancelling may lose steps: not if the trainer has not started since the run was admitted. What it
    did before is saved, or lost already.
    """
    if row.stage == "serve" or row.state == "queued" or row.reason in NOT_BEGUN:
        return False
    return not (row.state == "starting" and _waits_for_first_pod(observation))


def loss_of(observation: Observation, row: Row, saved: SavedSteps) -> Loss:
    """Return the loss. `saved` is used only if `may_lose`."""
    chips = row.chips
    if row.state in ("queued", "evicted"):
        chips = 0
    if not may_lose(observation, row):
        return Loss(step=None, saved_step=None, steps=0, why="", chips=chips, begun=False)
    # the checkpoints and the trainer's log: either may have been read a moment earlier
    known_steps = (saved.step, row.progress.saved_step, row.progress.resumed_from)
    latest = max((step for step in known_steps if step is not None), default=None)
    why = _why_loss_unknown(observation, row, saved, latest)
    steps = None if why else max(0, (row.step or 0) - (latest or 0))
    return Loss(step=row.step, saved_step=latest, steps=steps, why=why, chips=chips)


def loss_text(loss: Loss) -> str:
    """The text, one line."""
    if not loss.begun:
        return "its trainer is not running; no step would be lost"
    checkpoint = f" (latest checkpoint: step {loss.saved_step})" if loss.saved_step is not None else ""
    if loss.steps is None:
        return f"how many steps would be lost is unknown: {loss.why}{checkpoint}"
    if loss.step is None:
        return f"its trainer has completed no step since it started; no step would be lost{checkpoint}"
    if loss.saved_step is None:
        return f"it has no checkpoint: all of its {loss.step} steps would be lost"
    if not loss.steps:
        return f"its checkpoint of step {loss.saved_step} is its last step: nothing would be lost"
    return (
        f"{loss.steps} steps since the checkpoint of step {loss.saved_step} would be lost (it is at step {loss.step})"
    )


def _waits_for_first_pod(observation: Observation) -> bool:
    """Return whether a pod that was created when Kueue admitted the run has not started. Every step needs all pods, so
    none was completed since.
    """
    if observation.jobset is None or observation.jobset.restarts:
        return False
    since = admitted_at(observation, observation.jobset)
    created = (pod.metadata.creation_timestamp for pod in current(observation) if pod.status.phase == "Pending")
    ages = (seconds_between(since, time) for time in created)
    return any(age is not None and age < FIRST_POD_S for age in ages)


def _why_loss_unknown(observation: Observation, row: Row, saved: SavedSteps, latest: int | None) -> str:
    """Return why the loss is unknown; empty if it is known."""
    progress = observation.progress
    if progress is None:
        reached = "" if saved.reached is None else f"; its metrics show step {saved.reached}"
        default = "its pods are not all running" if row.state == "starting" else "unknown reason"
        return f"its progress was not read ({row.progress.why or default}){reached}"
    if progress.source != "log":
        return f"its log was not read, and its {progress.source} (up to step {row.step}) may be older"
    if (seconds_between(progress.read_at, observation.observed_at) or 0) > 0:
        return f"its log was last read at {progress.read_at}, at step {row.step}"
    if row.step is None and progress.phase not in ("starting", "compiling"):
        return "it printed no step that xsft recognises"
    if row.step is not None and latest is None and saved.why:
        return f"it is at step {row.step}, and its checkpoints were not read ({saved.why})"
    return ""
