"""Return the state of a run from an observation. Pure and total: no observation makes it raise.

The state depends on the type, status and reason of conditions, never on a message or on any order. Evidence that was
not read is never a failure. docs/states.md explains every state and reason. source: kueue@v0.16.1 and jobset@v0.10.1,
each stage seen on a real control plane.
"""

from __future__ import annotations

from xsft.base.moments import earliest, latest, seconds_between
from xsft.cluster.objects import Condition, true_condition
from xsft.cluster.observation import Observation, RunObject, Status
from xsft.cluster.queue_fields import Workload
from xsft.runs.ending import (
    status_of_completed,
    status_of_failed,
    status_of_gone,
    status_of_record,
    status_of_unreachable,
)
from xsft.runs.failing import PATHWAYS_HEAD
from xsft.runs.pod_reasons import current, trouble
from xsft.runs.running import trainer_state
from xsft.runs.server_states import server_status

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


def classify(seen: Observation) -> Status:
    """Return the state at the time of the observation: an old one does not become another with age."""
    if seen.on_this_machine:
        return status_of_record(seen) or _status_of_live(seen)
    if seen.jobset is None and any(unread.what == "object" for unread in seen.unread):
        return Status(state="unknown", reason="object-not-read")
    silent = any(one.what in ("jobsets", "servers") for one in seen.unread)
    if silent and seen.last_known is not None:
        return seen.last_known  # its JobSet is also from the earlier read
    if seen.jobset is not None and seen.jobset.serves:
        return server_status(seen, seen.jobset)
    if seen.jobset is not None:
        jobset = seen.jobset
        return (
            _classify_ended(seen, jobset)
            or _held_back(seen, jobset)
            or _coming_up(seen, jobset)
            or _status_when_up(seen, jobset)
        )
    return status_of_unreachable(seen) if silent else status_of_gone(seen)


def _status_of_live(seen: Observation) -> Status:
    """Return the status of a local run whose lock a process holds."""
    state, reason = trainer_state(seen)
    return Status(state=state, reason=reason, evidence=tuple(dict.fromkeys(("record", *_progress_source(seen)))))


def _classify_ended(seen: Observation, jobset: RunObject) -> Status | None:
    """A terminal JobSet is final immediately, whatever its pods still do; the Kueue Workload follows it."""
    failure = true_condition(jobset.conditions, "Failed")
    if jobset.terminal == "Failed" or failure:
        return status_of_failed(seen, failure.reason if failure else "", told_by="jobset")
    success = true_condition(jobset.conditions, "Completed")
    if jobset.terminal == "Completed" or success:
        return status_of_completed(seen, ended_at=success.at if success else None, told_by="jobset")
    if finished := _finished_status(seen, jobset):
        return finished
    if jobset.deleting_at is not None:
        return Status(state="cancelled", reason="deleting", evidence=("jobset",))
    return None


def _finished_status(seen: Observation, jobset: RunObject) -> Status | None:
    """Return the end by the Kueue Workload; None if the JobSet runs on without it."""
    finished = true_condition(seen.workload.conditions, "Finished") if seen.workload else None
    if finished is None:
        return None
    if finished.reason == "Failed":
        return status_of_failed(seen, "", told_by="workload")
    if finished.reason == "Succeeded":
        return status_of_completed(seen, ended_at=finished.at, told_by="workload")
    # FailedToStart, OutOfSync or another reason: Kueue never resumes a suspended JobSet
    return Status(state="failed", reason="kueue-finished", evidence=("workload",)) if jobset.suspended else None


def _held_back(seen: Observation, jobset: RunObject) -> Status | None:
    """The state of a run that Kueue has evicted or not admitted yet."""
    if seen.workload is not None:
        return _evicted_status(seen.workload) or _queued_status(seen.workload) or _taken_out(jobset)
    if not jobset.suspended:
        return None  # Kueue ignores a JobSet without a queue, so it runs at once
    return Status(state="queued", reason=_why_suspended(seen, jobset), evidence=("jobset",))


def _taken_out(jobset: RunObject) -> Status | None:
    """A run whose queue label was removed after admission: its Workload stays as it was, and Kueue no longer resumes
    it."""
    if not jobset.suspended or jobset.queue is not None:
        return None
    return Status(state="queued", reason="suspended", evidence=("jobset",))


def _why_suspended(seen: Observation, jobset: RunObject) -> str:
    """Kueue may create a Workload even for a JobSet without a queue. Without queue and Workload nothing resumes the
    JobSet."""
    if any(one.what == "workloads" for one in seen.unread):
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


def _coming_up(seen: Observation, jobset: RunObject) -> Status | None:
    """The state of an admitted run with pods that are not running."""
    if jobset.suspended:
        return Status(state="starting", reason="admitted", evidence=("jobset", "workload"))
    if _is_broken(seen, jobset):
        return Status(state="failed", reason="broken-spec", evidence=("jobset", *_known_evidence(seen, "workload")))
    if reason := trouble(current(seen)):
        return Status(state="starting", reason=reason, evidence=("jobset", "pods"))
    if not jobset.jobs or any(job.ready + job.succeeded < job.replicas for job in jobset.jobs):
        return Status(state="starting", reason=_why_not_ready(seen, jobset), evidence=("jobset",))
    return None


def _is_broken(seen: Observation, jobset: RunObject) -> bool:
    """Return whether the JobSet has no Jobs although Kueue has admitted it. Judged at the time of reading, so an old
    observation does not become broken with age."""
    unread = any(one.what == "workloads" for one in seen.unread)
    if unread or jobset.has_status or any(job.jobs for job in jobset.jobs):
        return False
    since = seconds_between(admitted_at(seen, jobset), seen.observed_at)
    return since is not None and since > BROKEN_AFTER_S


def _why_not_ready(seen: Observation, jobset: RunObject) -> str:
    """The reason while pods are not running. A restart is the reason for a short time only, and only if there is no
    other."""
    lately = jobset.restarts > 0 and _restarted_lately(seen, jobset)
    if not any(job.jobs for job in jobset.jobs):
        return "restarted" if lately else "no-jobs"
    if true_condition(jobset.conditions, "StartupPolicyInProgress") and not _workers_began(jobset):
        return "workers-after-head"
    if lately:
        return "restarted"
    return "pods-replaced" if _has_trained(seen) else "pods-not-ready"


def _workers_began(jobset: RunObject) -> bool:
    """Return whether the workers have started. JobSet keeps StartupPolicyInProgress until all workers are ready, also
    while they fail and start again."""
    workers = (job for job in jobset.jobs if job.name != PATHWAYS_HEAD)
    return any(job.active or job.ready or job.succeeded or job.failed for job in workers)


def _restarted_lately(seen: Observation, jobset: RunObject) -> bool:
    """Return whether the run was certainly restarted recently: by the age of its new pods, else by what was read before
    the restart."""
    anew = earliest(*(pod.created_at for pod in current(seen)))
    before = latest(jobset.created_at, seen.before.at if seen.before else None)
    passed = seconds_between(anew or before, seen.observed_at)
    return passed is not None and passed < RESTART_S


def _has_trained(seen: Observation) -> bool:
    """Return whether the trainer has done a step since the last restart. Only the log is certainly of this start;
    metrics may be older."""
    return seen.progress is not None and seen.progress.step is not None and seen.progress.source == "log"


def _status_when_up(seen: Observation, jobset: RunObject) -> Status:
    """The state while all pods are running: the trainer's lines decide."""
    state, reason = trainer_state(seen)
    if jobset.restarts > 0 and state in {"starting", "compiling"}:
        reason = "restarted"
    return Status(
        state=state, reason=reason, evidence=("jobset", *_known_evidence(seen, "pods"), *_progress_source(seen))
    )


def _known_evidence(seen: Observation, *names: str) -> tuple[str, ...]:
    found = {"workload": seen.workload is not None, "pods": seen.pods is not None}
    return tuple(name for name in names if found[name])


def _progress_source(seen: Observation) -> tuple[str, ...]:
    """The source of the trainer's progress."""
    return (seen.progress.source,) if seen.progress else ()


def admitted_at(seen: Observation, jobset: RunObject) -> str:
    """Return when Kueue last admitted the run; when its JobSet was created if it has no Workload."""
    admission = admitted_condition(seen.workload)
    return admission.at if admission else jobset.created_at


def admitted_condition(workload: Workload | None) -> Condition | None:
    return true_condition(workload.conditions, "Admitted") if workload else None
