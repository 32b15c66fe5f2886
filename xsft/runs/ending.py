"""Decide how a run ended, and whether it completed its steps. Pure.

MaxText exits 0 when its data runs out, so a completed JobSet proves nothing about steps: the last step must equal the
requested one.
"""

from __future__ import annotations

from xsft.base.amounts import seconds_between
from xsft.base.state_names import ENDED, State
from xsft.cluster.observation import UNENDED, Observation, Status
from xsft.runs.pod_reasons import current, oom_killed
from xsft.runs.rows import is_worthless, worthless
from xsft.trainer.progress import Progress

_TRAINER_FAILED = frozenset({"FailJobSetFailurePolicyAction", "ReachedMaxRestarts", "FailedJobs"})
"""source: jobset@v0.10.1 pkg/constants/constants.go"""


def steps_done(progress: Progress | None) -> int | None:
    """Return the highest step that any source proves; a run that starts from its last checkpoint prints no step."""
    steps = (progress.step, progress.saved_step, progress.resumed_from) if progress else ()
    return max((step for step in steps if step is not None), default=None)


def status_of_completed(observation: Observation, *, ended_at: str | None, told_by: str) -> Status:
    """Return the state of a run whose processes exited with 0."""
    steps, progress = observation.steps_asked, observation.progress
    if observation.jobset is not None and observation.jobset.work is not None:
        return _status_of_work(observation, work=observation.jobset.work, told_by=told_by)
    if progress is not None and (failure := _failure_reason(progress, asked=steps)):
        return Status(state="failed", reason=failure, evidence=(told_by, progress.source))
    if steps is None:
        return Status(state="succeeded", reason="steps-not-known", evidence=(told_by,))
    if progress is None:
        return Status(state="unknown", reason="steps-not-read", evidence=(told_by,))
    state, reason = _by_steps(progress, asked=steps, ended_at=ended_at)
    return Status(state=state, reason=reason, evidence=(told_by, progress.source))


def _status_of_work(observation: Observation, *, work: str, told_by: str) -> Status:
    """Return the state of work without steps. An evaluation exits with 0 whatever its verdict, which its record has."""
    if work == "evaluate" and observation.record is not None and observation.record.outcome == "failed":
        return Status(state="failed", reason=_VERDICT_FAILED, evidence=(told_by, "record"))
    if observation.known_end is not None:
        return observation.known_end  # its record is not read again
    unread = any(source.what == "record" or source.passed_over for source in observation.unread)
    if work == "evaluate" and observation.record is None and unread:
        return Status(state="unknown", reason="record-not-read", evidence=(told_by,))
    return Status(state="succeeded", evidence=(told_by,))


def _by_steps(progress: Progress, *, asked: int, ended_at: str | None) -> tuple[State, str]:
    done = steps_done(progress)
    if done is not None and done >= asked:
        return "succeeded", ""
    if progress.data_ended:
        return "failed", "data-ended"
    if done is not None and _proves_short_end(progress, done=done, asked=asked, ended_at=ended_at):
        return "failed", "ended-short"
    return "unknown", "steps-not-read"


def _failure_reason(progress: Progress, *, asked: int | None) -> str | None:
    """Return a reason to call the run failed, from the trainer's lines, whatever its exit status."""
    return "aborted" if progress.aborted is not None else worthless(progress, asked=asked)


def _proves_short_end(progress: Progress, *, done: int, asked: int, ended_at: str | None) -> bool:
    """Return whether a last step below the requested one proves that the run ended short.

    It does not if it was read before the end. MaxText never writes the metrics of the last step (maxtext@0.2.5
    common/metric_logger.py flushes at steps - 1), and a record may be older.
    """
    after = seconds_between(ended_at, progress.read_at)
    if (after is not None and after < 0) or progress.source == "record":
        return False
    return done < asked - 1 if progress.source == "metrics" else True


def status_of_failed(observation: Observation, reason: str, *, told_by: str) -> Status:
    """Return the state of a failed JobSet. `reason`: the condition's; pods and the trainer's log name the cause better,
    if they were read.
    """
    progress, steps = observation.progress, observation.steps_asked
    from_trainer = _failure_reason(progress, asked=steps) if progress else None
    if from_trainer is None and (source := _proof_of_result(observation)):
        return Status(state="succeeded", reason="after-last-step", evidence=(told_by, source))
    if oom_killed(current(observation)):
        return Status(state="failed", reason="oom-killed", evidence=(told_by, "pods"))
    if observation.known_end and observation.known_end.state == "failed" and "pods" in observation.known_end.evidence:
        return observation.known_end  # only its pods showed it, which may be gone or unreadable now
    if progress and from_trainer:
        return Status(state="failed", reason=from_trainer, evidence=(told_by, progress.source))
    if reason == "ReachedMaxRestarts" and observation.jobset and observation.jobset.restarts > 0:
        return Status(state="failed", reason="restarts-used-up", evidence=(told_by,))
    slug = "trainer-failed" if reason in _TRAINER_FAILED else "jobset-failed"
    return Status(state="failed", reason=slug, evidence=(told_by,))


def _proof_of_result(observation: Observation) -> str:
    """Return the source that shows a complete result, whatever ended the processes later; empty without one. The run
    succeeded then, also after its JobSet is gone.
    """
    progress, jobset = observation.progress, observation.jobset
    if progress and _is_last_step_saved(progress, asked=observation.steps_asked):
        return progress.source
    if (
        jobset is not None
        and jobset.work is not None
        and observation.record
        and observation.record.outcome == "completed"
    ):
        return "record"
    return ""


def status_of_unreachable(observation: Observation) -> Status:
    """Return the state of a run on a cluster that does not answer, without earlier information. Never `failed`."""
    if observation.record and observation.record.outcome == "cancelled":
        return Status(state="cancelled", evidence=("record",))
    saved = _last_step_saved(observation)
    return saved if saved and saved.state == "succeeded" else Status(state="unknown", reason="unreachable")


def status_of_gone(observation: Observation) -> Status:
    """Return the state of a run without a JobSet on a cluster that answered: deleted, past its TTL, or never
    created.
    """
    if observation.last_known and observation.last_known.state in ENDED:
        return observation.last_known
    if observation.record is None:
        return _last_step_saved(observation) or Status(state="unknown", reason="not-found")
    if observation.record.outcome == "cancelled":
        return Status(state="cancelled", evidence=("record",))
    if ended := _last_step_saved(observation) or _recorded_end(observation):
        return ended
    if observation.record.outcome == "submitting":
        return Status(state="unknown", reason="submitting", evidence=("record",))
    is_open = observation.record.outcome in UNENDED
    return Status(state="unknown", reason="jobset-gone" if is_open else "not-found", evidence=("record",))


def status_of_record(observation: Observation) -> Status | None:
    """Return the state of a local run from its record; None while it is running."""
    if observation.record is None:
        unread = any(source.what == "record" for source in observation.unread)
        nothing = Status(state="unknown", reason="record-not-read" if unread else "not-found")
        return observation.last_known or nothing if unread else nothing
    if ended := _recorded_end(observation):
        return ended
    if observation.record.outcome not in UNENDED:
        return Status(state="unknown", reason="record-unknown", evidence=("record",))
    if observation.record.alive:
        return None
    return _last_step_saved(observation) or Status(state="failed", reason="killed", evidence=("record",))


_VERDICT_FAILED = "verdict-failed"
_RECORDED: dict[str, tuple[State, str]] = {
    "completed": ("succeeded", ""),
    "short": ("failed", "ended-short"),
    "failed": ("failed", "trainer-failed"),
    "not-created": ("failed", "not-created"),
    "interrupted": ("cancelled", "interrupted"),
    "cancelled": ("cancelled", ""),
}


def _recorded_end(observation: Observation) -> Status | None:
    """Return the end in the record, or None. The log names the cause better, if it still has it."""
    record, progress = observation.record, observation.progress
    if record is None or record.outcome not in _RECORDED:
        return None
    state, reason = _RECORDED[record.outcome]
    if state == "cancelled":
        return Status(state=state, reason=reason, evidence=("record",))
    if record.outcome == "failed" and progress and progress.aborted is not None:
        return Status(state=state, reason="aborted", evidence=("record",))
    if nothing := _taught_nothing(observation):
        return nothing
    if (state == "succeeded" and record.reason) or (
        state == "failed" and progress and _is_last_step_saved(progress, asked=observation.steps_asked)
    ):
        return Status(state="succeeded", reason="after-last-step", evidence=("record",))
    if record.outcome == "failed" and record.work == "evaluate" and (record.reason or "").startswith("verdict "):
        reason = _VERDICT_FAILED  # else a process of the evaluation failed
    if record.outcome == "short" and progress and progress.data_ended:
        reason = "data-ended"
    return Status(state=state, reason=reason, evidence=("record",))


def _last_step_saved(observation: Observation) -> Status | None:
    """Return `succeeded` if the checkpoint of the last step exists, unless its steps trained nothing."""
    progress, steps = observation.progress, observation.steps_asked
    if progress is None or not _is_last_step_saved(progress, asked=steps):
        return None
    return _taught_nothing(observation) or Status(
        state="succeeded", reason="last-step-saved", evidence=("checkpoints",)
    )


def _is_last_step_saved(progress: Progress, *, asked: int | None) -> bool:
    """Return whether the checkpoint of the last step is saved."""
    return asked is not None and progress.saved_step is not None and progress.saved_step >= asked


def _taught_nothing(observation: Observation) -> Status | None:
    """Return the status of a run whose steps trained nothing, from the record or from the log; else None."""
    if observation.record and is_worthless(observation.record.state_reason):
        return Status(state="failed", reason=observation.record.state_reason, evidence=("record",))
    if nothing := worthless(observation.progress, asked=observation.steps_asked):
        evidence = ("record", *((observation.progress.source,) if observation.progress else ()))
        return Status(state="failed", reason=nothing, evidence=tuple(dict.fromkeys(evidence)))
    return None
