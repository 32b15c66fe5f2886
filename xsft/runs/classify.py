"""Return the state of a run from an observation. Pure and total: no observation makes it raise.

The state depends on the type, status and reason of conditions, never on a message or on any order. Evidence that was
not read is never a failure. docs/states.md explains every state and reason. source: kueue@v0.16.1 and jobset@v0.10.1,
each stage seen on a real control plane.

Only the log measures the silence of a trainer: metrics are flushed every `log_period` steps and checkpoints saved every
`checkpoint_period`, so old ones are normal.
"""

from __future__ import annotations

from math import isfinite

from xsft.base.amounts import earliest, latest, seconds_between
from xsft.base.state_names import State
from xsft.cluster.objects import Condition, Workload, true_condition
from xsft.cluster.observation import Observation, RunObject, Status
from xsft.runs.ending import (
    status_of_completed,
    status_of_failed,
    status_of_gone,
    status_of_record,
    status_of_unreachable,
)
from xsft.runs.pod_reasons import PATHWAYS_HEAD, current, started_at, trouble
from xsft.runs.rows import worthless
from xsft.runs.server_states import server_state
from xsft.trainer.progress import Progress

STALL_FACTOR = 10.0
"""Number of median steps without a line. The pause around a save takes a few; a hung collective never ends."""

STEP_SILENCE_S = 300.0
"""Minimum seconds, however short the steps: a host that waits for its data catches up."""

UNKNOWN_STEP_SILENCE_S = 1800.0
"""Seconds while no median is known: at most one step was printed, and it included the compilation."""

START_SILENCE_S = 3600.0
"""Seconds before the first step: loading and compiling deepseek3-671b on v6e-256 prints nothing for tens of minutes."""

SAVE_SILENCE_S = 1800.0
"""Seconds for a save of terabytes to a bucket, and for the final save, which delays the end of the process."""

EVAL_SILENCE_S = 3600.0
"""Seconds for an evaluation: it reads all of its data unless `eval_steps` limits it, and prints nothing before its
end."""

DescribedState = tuple[State, str]
"""State and reason."""


def trainer_state(observation: Observation) -> DescribedState:
    """Return the state by the trainer's lines; without any, `training` with a reason."""
    progress = observation.progress
    if is_work(observation):
        return "training", "cpu-job"
    if progress is None or (
        progress.phase is None and progress.step is None and progress.source in {"metrics", "checkpoints"}
    ):
        return "training", "progress-not-read"  # before the first step there is neither; only the log shows it
    doing = _printed_state(progress)
    if doing[0] == "starting" and observation.jobset is not None and not observation.jobset.ours:
        return "training", "trainer-silent"  # any program may run in a JobSet of plain xpk
    stalled = _stall_reason(observation, progress, doing[0])
    if stalled:
        return "stalled", stalled
    nothing = worthless(progress, asked=observation.steps_asked) if doing[0] in {"training", "saving"} else None
    return (doing[0], nothing) if nothing and doing[1] != "aborting" else doing


def is_work(observation: Observation) -> bool:
    """Return whether it is work without steps, such as a conversion."""
    work_source = observation.jobset or observation.record
    return work_source is not None and work_source.work is not None


def _printed_state(progress: Progress) -> DescribedState:
    if progress.phase == "ended":
        return "saving", "data-ended" if progress.data_ended else "ending"
    if progress.aborted is not None:
        return "training", "aborting"
    if progress.phase == "saving":
        return "saving", ""
    if progress.phase == "compiling" or (progress.phase in {"training", "evaluating"} and progress.step is None):
        return "compiling", ""
    if progress.phase in {"training", "evaluating"} or (progress.phase is None and progress.step is not None):
        return "training", "evaluating" if progress.phase == "evaluating" else ""
    return "starting", "trainer-starting"


def _stall_reason(observation: Observation, progress: Progress, state: State) -> str | None:
    """Return the reason if the trainer has been silent for too long, else None.

    Silence ends when the log was read, because later lines are unknown. A line from the future shows a wrong clock, not
    silence.
    """
    if progress.source != "log":
        return None
    heard = progress.said_at or progress.began_at or latest(*started_at(current(observation)))
    silence = seconds_between(heard, earliest(observation.observed_at, progress.read_at))
    if silence is None or silence <= _silence_limit_s(progress, state):
        return None
    if state == "training" and progress.phase == "evaluating":
        return "eval-hangs"
    return {"starting": "no-output", "compiling": "no-first-step", "saving": "save-hangs"}.get(state, "no-step")


def _silence_limit_s(progress: Progress, state: State) -> float:
    """Seconds."""
    if state in {"starting", "compiling"}:
        return START_SILENCE_S
    if state == "saving":
        return SAVE_SILENCE_S
    if progress.phase == "evaluating":
        return EVAL_SILENCE_S
    step = progress.step_seconds
    if step is None or not isfinite(step) or step <= 0:
        return UNKNOWN_STEP_SILENCE_S
    return max(STALL_FACTOR * step, STEP_SILENCE_S)


BROKEN_AFTER_S = 60.0
"""If a JobSet is admitted for longer than this and has no status, its controller cannot create the Jobs.

The controller writes no status while creating the Jobs fails (jobset@v0.10.1 controllers/jobset_controller.go
Reconcile); a healthy JobSet has one in under a second, unless the controller is busy or is being restarted.
"""

RESTART_S = 600.0
"""Seconds after a restart in which starting pods need no other reason."""

_EVICTED = {
    "Preempted": "preempted",
    "ClusterQueueStopped": "queue-stopped",
    "LocalQueueStopped": "queue-stopped",
    "PodsReadyTimeout": "pods-ready-timeout",
    "AdmissionCheck": "admission-check",
    "NodeFailures": "node-failures",
}
"""source: kueue@v0.16.2 apis/kueue/v1beta2/workload_types.go"""


def classify(observation: Observation) -> Status:
    """Return the state at the time of the observation: an old one does not become another with age."""
    if observation.on_this_machine:
        return status_of_record(observation) or _status_of_live(observation)
    if observation.jobset is None and any(unread.what == "object" for unread in observation.unread):
        return Status(state="unknown", reason="object-not-read")
    silent = any(one.what in ("jobsets", "servers") for one in observation.unread)
    if silent and observation.last_known is not None:
        return observation.last_known  # its JobSet is also from the earlier read
    if observation.jobset is not None and observation.jobset.serves:
        return server_state(observation.jobset, observation.pods).status
    if observation.jobset is not None:
        jobset = observation.jobset
        return (
            _classify_ended(observation, jobset)
            or _held_back(observation, jobset)
            or _coming_up(observation, jobset)
            or _status_when_up(observation, jobset)
        )
    return status_of_unreachable(observation) if silent else status_of_gone(observation)


def _status_of_live(observation: Observation) -> Status:
    """Return the status of a local run whose lock a process holds."""
    state, reason = trainer_state(observation)
    return Status(state=state, reason=reason, evidence=tuple(dict.fromkeys(("record", *_progress_source(observation)))))


def _classify_ended(observation: Observation, jobset: RunObject) -> Status | None:
    """A terminal JobSet is final immediately, whatever its pods still do; the Kueue Workload follows it."""
    failure = true_condition(jobset.conditions, "Failed")
    if jobset.terminal == "Failed" or failure:
        return status_of_failed(observation, failure.reason if failure else "", told_by="jobset")
    success = true_condition(jobset.conditions, "Completed")
    if jobset.terminal == "Completed" or success:
        return status_of_completed(observation, ended_at=success.at if success else None, told_by="jobset")
    if finished := _finished_status(observation, jobset):
        return finished
    if jobset.deleting_at is not None:
        return Status(state="cancelled", reason="deleting", evidence=("jobset",))
    return None


def _finished_status(observation: Observation, jobset: RunObject) -> Status | None:
    """Return the end by the Kueue Workload; None if the JobSet runs on without it."""
    finished = true_condition(observation.workload.conditions, "Finished") if observation.workload else None
    if finished is None:
        return None
    if finished.reason == "Failed":
        return status_of_failed(observation, "", told_by="workload")
    if finished.reason == "Succeeded":
        return status_of_completed(observation, ended_at=finished.at, told_by="workload")
    # FailedToStart, OutOfSync or another reason: Kueue never resumes a suspended JobSet
    return Status(state="failed", reason="kueue-finished", evidence=("workload",)) if jobset.suspended else None


def _held_back(observation: Observation, jobset: RunObject) -> Status | None:
    """The state of a run that Kueue has evicted or not admitted yet."""
    if observation.workload is not None:
        return _evicted_status(observation.workload) or _queued_status(observation.workload) or _taken_out(jobset)
    if not jobset.suspended:
        return None  # Kueue ignores a JobSet without a queue, so it runs at once
    return Status(state="queued", reason=_why_suspended(observation, jobset), evidence=("jobset",))


def _taken_out(jobset: RunObject) -> Status | None:
    """A run whose queue label was removed after admission: its Workload stays as it was, and Kueue no longer resumes
    it."""
    if not jobset.suspended or jobset.queue is not None:
        return None
    return Status(state="queued", reason="suspended", evidence=("jobset",))


def _why_suspended(observation: Observation, jobset: RunObject) -> str:
    """Kueue may create a Workload even for a JobSet without a queue. Without queue and Workload nothing resumes the
    JobSet."""
    if any(unread.what == "workloads" for unread in observation.unread):
        return "workload-not-read"
    return "no-workload" if jobset.queue else "suspended"


def _evicted_status(workload: Workload) -> Status | None:
    """Evicted wins over QuotaReserved=True, which stays while the pods of an evicted run are still ending."""
    eviction = true_condition(workload.conditions, "Evicted")
    if eviction is None:
        return None
    return Status(state="evicted", reason=_why_evicted(workload, eviction), evidence=("workload",))


def _why_evicted(workload: Workload, eviction: Condition) -> str:
    """A Workload with `Deactivated` or `DeactivatedDueTo…` is admitted again only after a user activates it."""
    if "MaximumExecutionTimeExceeded" in eviction.reason:
        return "time-limit"
    if not workload.spec.active or eviction.reason.startswith("Deactivated"):
        return "deactivated"
    return _EVICTED.get(eviction.reason, "evicted")


def _queued_status(workload: Workload) -> Status | None:
    reserved = true_condition(workload.conditions, "QuotaReserved")
    if reserved and admitted_condition(workload):
        return None
    return Status(state="queued", reason=_why_queued(workload, reserved), evidence=("workload",))


def _why_queued(workload: Workload, reserved: Condition | None) -> str:
    if not workload.spec.active:
        return "deactivated"
    if reserved:
        return "admission-checks"
    inadmissible = any(c.type == "QuotaReserved" and c.reason == "Inadmissible" for c in workload.conditions)
    return "inadmissible" if inadmissible else "waiting-for-quota"


def _coming_up(observation: Observation, jobset: RunObject) -> Status | None:
    """The state of an admitted run with pods that are not running."""
    if jobset.suspended:
        return Status(state="starting", reason="admitted", evidence=("jobset", "workload"))
    if _is_broken(observation, jobset):
        return Status(
            state="failed", reason="broken-spec", evidence=("jobset", *_known_evidence(observation, "workload"))
        )
    if reason := trouble(current(observation)):
        return Status(state="starting", reason=reason, evidence=("jobset", "pods"))
    if not jobset.jobs or any(job.ready + job.succeeded < job.replicas for job in jobset.jobs):
        return Status(state="starting", reason=_why_not_ready(observation, jobset), evidence=("jobset",))
    return None


def _is_broken(observation: Observation, jobset: RunObject) -> bool:
    """Return whether the JobSet has no Jobs although Kueue has admitted it. Judged at the time of reading, so an old
    observation does not become broken with age."""
    unread = any(source.what == "workloads" for source in observation.unread)
    if unread or jobset.has_status or any(job.jobs for job in jobset.jobs):
        return False
    since = seconds_between(admitted_at(observation, jobset), observation.observed_at)
    return since is not None and since > BROKEN_AFTER_S


def _why_not_ready(observation: Observation, jobset: RunObject) -> str:
    """The reason while pods are not running. A restart is the reason for a short time only, and only if there is no
    other."""
    lately = jobset.restarts > 0 and _restarted_lately(observation, jobset)
    if not any(job.jobs for job in jobset.jobs):
        return "restarted" if lately else "no-jobs"
    if true_condition(jobset.conditions, "StartupPolicyInProgress"):
        workers = [job for job in jobset.jobs if job.name != PATHWAYS_HEAD]
        # the condition stays until all workers are ready, also while they fail and start again
        if not any(job.active or job.ready or job.succeeded or job.failed for job in workers):
            return "workers-after-head"
    if lately:
        return "restarted"
    progress = observation.progress
    # only the log is certainly of this start; metrics may be older
    has_trained = progress is not None and progress.step is not None and progress.source == "log"
    return "pods-replaced" if has_trained else "pods-not-ready"


def _restarted_lately(observation: Observation, jobset: RunObject) -> bool:
    """Return whether the run was certainly restarted recently: by the age of its new pods, else by what was read before
    the restart."""
    anew = earliest(*(pod.metadata.creation_timestamp for pod in current(observation)))
    before = latest(jobset.created_at, observation.before.at if observation.before else None)
    passed = seconds_between(anew or before, observation.observed_at)
    return passed is not None and passed < RESTART_S


def _status_when_up(observation: Observation, jobset: RunObject) -> Status:
    """The state while all pods are running: the trainer's lines decide."""
    state, reason = trainer_state(observation)
    if jobset.restarts > 0 and state in {"starting", "compiling"}:
        reason = "restarted"
    return Status(
        state=state,
        reason=reason,
        evidence=("jobset", *_known_evidence(observation, "pods"), *_progress_source(observation)),
    )


def _known_evidence(observation: Observation, *names: str) -> tuple[str, ...]:
    is_read = {"workload": observation.workload is not None, "pods": observation.pods is not None}
    return tuple(name for name in names if is_read[name])


def _progress_source(observation: Observation) -> tuple[str, ...]:
    """The source of the trainer's progress."""
    return (observation.progress.source,) if observation.progress else ()


def admitted_at(observation: Observation, jobset: RunObject) -> str:
    """Return when Kueue last admitted the run; when its JobSet was created if it has no Workload."""
    admission = admitted_condition(observation.workload)
    return admission.at if admission else jobset.created_at


def admitted_condition(workload: Workload | None) -> Condition | None:
    return true_condition(workload.conditions, "Admitted") if workload else None
