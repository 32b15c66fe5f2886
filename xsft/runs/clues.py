"""Clues for the rules of `why`, all but those of a restarted run: what the queue, the pods, a failed process, the state
itself and a silent log show. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from xsft.base.amounts import seconds_between, with_z
from xsft.base.names import list_names
from xsft.base.problems import errors_in
from xsft.cluster.evidence import Event, Evidence, Log
from xsft.cluster.objects import Condition
from xsft.runs.cause_rule import BY_SLUG, Clue
from xsft.runs.pod_reasons import (
    CONTAINER_START,
    PATHWAYS_HEAD,
    current,
    failures_of,
    first_failure,
    place,
    unscheduled,
)
from xsft.runs.rows import ENOUGH, Worthless, is_worthless
from xsft.runs.server_states import server_state


def kueue(evidence: Evidence) -> Iterator[Clue]:
    """Yield Kueue's message about quota that is not reserved."""
    for condition, where in _workload_conditions(evidence, "QuotaReserved"):
        if condition.status != "True" and condition.message:
            yield Clue(text=condition.message, where=where)


def eviction(evidence: Evidence) -> Iterator[Clue]:
    """Yield `reason: message` of the condition Evicted=True."""
    by = f"by {evidence.preemptor or 'another run'}"
    for condition, where in _workload_conditions(evidence, "Evicted"):
        if condition.status == "True":
            yield Clue(text=f"{condition.reason}: {condition.message}", where=where, values={"by": by})


def readmitted(evidence: Evidence) -> Iterator[Clue]:
    """Yield `Previously: message` of an eviction that is over. source: kueue@v0.16 pkg/workload/workload.go."""
    for condition, where in _workload_conditions(evidence, "Evicted"):
        if condition.status == "False":
            yield Clue(text=condition.message, where=where, values={"at": condition.at})


def _workload_conditions(evidence: Evidence, kind: str) -> Iterator[tuple[Condition, str]]:
    """Yield the conditions of that type of the Kueue Workload, with its name as a place."""
    workload = evidence.seen.workload
    for condition in workload.conditions if workload else ():
        if condition.type == kind:
            yield condition, f"Kueue Workload {workload.name if workload else ''}"


def cluster_queue(evidence: Evidence) -> Iterator[Clue]:
    """Yield `Active=False reason: message` of the ClusterQueue."""
    active = evidence.cluster_queue
    if active and active.status != "True":
        name = evidence.seen.workload.cluster_queue if evidence.seen.workload else None
        where = f"ClusterQueue {name}" if name else "ClusterQueue"
        yield Clue(text=f"Active={active.status} {active.reason}: {active.message}", where=where)


def behind(evidence: Evidence) -> Iterator[Clue]:
    """Yield `N higher` or `N before`: the runs ahead in the queue."""
    workload = evidence.seen.workload
    mine = workload.spec.priority if workload else None
    higher = [
        neighbour
        for neighbour in evidence.ahead or ()
        if neighbour.priority is not None and mine is not None and neighbour.priority > mine
    ]
    kind = "higher" if higher else "before"
    ahead = higher or list(evidence.ahead or ())
    if ahead:
        values = {"count": str(len(ahead)), "names": list_names([neighbour.name for neighbour in ahead])}
        yield Clue(text=f"{len(ahead)} {kind}", quoted=(), values=values)


def missing(evidence: Evidence) -> Iterator[Clue]:
    """Yield `Kind/name` of each object that the run names and the cluster does not have."""
    for missing_object in evidence.missing or ():
        yield Clue(text=missing_object, where=missing_object, quoted=())


def refused(evidence: Evidence) -> Iterator[Clue]:
    """Yield the API server's answer to a dry run of the missing Jobs; `taken` if it accepts them, nothing if the user
    may not ask."""
    if evidence.dry_run is None:
        return
    for problem in errors_in(evidence.dry_run):
        yield Clue(
            text=f"refused {problem.message}",
            quoted=(problem.message,),
            where=problem.where,
            values={"refused": problem.message, "mend": problem.fix},
        )
    if not evidence.dry_run:
        yield Clue(text="taken", quoted=())


_SCHEDULING = frozenset({"FailedScheduling", "FailedScaleUp", "NotTriggerScaleUp"})
_MAKING = frozenset({"Failed", "FailedMount", "FailedCreatePodSandBox", "InspectFailed"})
"""Reasons of events about a pod that fits on no node, and about a container that could not be created."""


JOB_ENDS = frozenset({"BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy"})
"""Reasons of a Job's failure. source: kubernetes@v1.35 staging/src/k8s.io/api/batch/v1/types.go"""

LAST_LINES = 5


def unplaced(evidence: Evidence) -> Iterator[Clue]:
    """Yield the scheduler's message about a pod that fits on no node; only if there is such a pod now."""
    pods = [pod for pod in current(evidence.seen) if unscheduled(pod)]
    for pod in pods:
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled":
                yield Clue(text=condition.message or condition.reason, where=place(pod))
    if pods:
        yield from (clue for clue in events(evidence) if clue.values["event"] in _SCHEDULING)


def waiting(evidence: Evidence) -> Iterator[Clue]:
    """Yield `reason: message` of containers that wait or could not be started, and of related events."""
    pods = current(evidence.seen)
    for pod in pods:
        for container in pod.containers:
            end = container.state.terminated
            unstarted = end if end and end.reason in CONTAINER_START else None
            obstacle = unstarted or container.state.waiting
            if obstacle and obstacle.reason:
                yield Clue(
                    text=f"{obstacle.reason}: {obstacle.message}",
                    where=place(pod),
                    values={"image": _image_name(evidence)},
                )
    for clue in events(evidence):
        if clue.values["event"] in _MAKING:
            yield clue


def events(evidence: Evidence) -> Iterator[Clue]:
    """Yield `reason: message` of events, the latest first."""
    for event in sorted(evidence.events or (), key=lambda one: one.at, reverse=True):
        values = {"event": event.reason, "image": _image_name(evidence)}
        yield Clue(text=f"{event.reason}: {event.message}", where=event.object, values=values)


def disrupted(evidence: Evidence) -> Iterator[Clue]:
    """Yield `reason: message` of DisruptionTarget: the cluster, not the program, ended this pod. Empty after a
    failure, because nodes are also removed when a run has ended."""
    failure = first_failure(evidence)
    failed_at = failure.end.finished_at if failure else None
    for pod in evidence.seen.pods or ():
        for condition in pod.status.conditions:
            later = (seconds_between(failed_at, condition.at) or 0) > 0
            if condition.type == "DisruptionTarget" and condition.status == "True" and not later:
                node = f" (node {pod.spec.node_name})" if pod.spec.node_name else ""
                yield Clue(text=f"{condition.reason}: {condition.message}", where=place(pod) + node)


def _image_name(evidence: Evidence) -> str:
    jobset = evidence.seen.jobset
    return jobset.image or "its image" if jobset else "its image"


def server(evidence: Evidence) -> Iterator[Clue]:
    """Yield `state reason` of a server, with its pod and the last log lines of a container that ended."""
    deployment, observation = evidence.seen.jobset, evidence.seen
    if deployment is None or not deployment.serves:
        return
    failure, pod = first_failure(evidence), next((one for one in observation.pods or () if not one.deleting), None)
    lines = failure.log.lines[-LAST_LINES:] if failure and failure.log else ()
    yield Clue(
        text=f"{evidence.status.state} {evidence.status.reason}",
        where=place(pod) if pod else "",
        quoted=lines or tuple(one.message for one in (evidence.events or ())[-1:]),
        values={"why": server_state(deployment, observation.pods).why, "image": deployment.image or "its image"},
    )


def said(evidence: Evidence) -> Iterator[Clue]:
    """Yield the `kind` of the process that failed first; if none is known, of all logs, lost peers last.

    A stalled run has no failure while no process has ended: errors in its logs may be old.
    """
    failure = first_failure(evidence)
    if failure is None and evidence.status.state == "stalled":
        return
    logs = [failure.log] if failure and failure.log else sorted(evidence.logs or (), key=_log_rank)
    for log in logs:
        if log.said is not None and not log.said.earlier:
            yield Clue(text=log.said.kind, where=place(log), quoted=(log.said.line,), values={"text": log.said.text})


def earlier(evidence: Evidence) -> Iterator[Clue]:
    """Yield a known line of the process that failed first that is not at the end of its log."""
    failure = first_failure(evidence)
    if failure is not None and failure.said is not None and failure.said.earlier:
        yield Clue(text=failure.said.text, where=place(failure.pod), quoted=(), values={"text": failure.said.text})


def deadline(evidence: Evidence) -> Iterator[Clue]:
    """Yield `reason: message` of the latest event about the end of a Job."""
    ends = [one for one in evidence.events or () if one.object.startswith("Job/") and one.reason in JOB_ENDS]
    for event in sorted(ends, key=lambda one: one.at)[-1:]:
        yield Clue(text=f"{event.reason}: {event.message}", where=event.object)


def _log_rank(log: Log) -> tuple[bool, int, int, int]:
    echo = log.said is not None and log.said.lost_peer
    return (echo, -log.attempt, log.slice_index, log.host)


def ended(evidence: Evidence) -> Iterator[Clue]:
    """Yield `head|worker|job REASON exit CODE`, with the termination message as evidence. `job`: has a memory
    limit."""
    failure = first_failure(evidence)
    if failure is None:
        return
    work = evidence.seen.jobset.work if evidence.seen.jobset else None
    memory = failure.pod.memory_limit(failure.container.name)
    who = "head" if failure.pod.replicated_job == PATHWAYS_HEAD else "worker"
    if work and memory:
        who = "job"
    code = failure.end.exit_code
    last = (*failure.end.message.strip().splitlines()[-3:], *(failure.log.lines[-3:] if failure.log else ()))
    yield Clue(
        text=f"{who} {failure.end.reason or 'Error'} exit {'unknown' if code is None else code}",
        where=place(failure.pod),
        quoted=tuple(dict.fromkeys(last)),  # the message may be the log's end
        values={"work": work or "", "memory": memory, "container": failure.container.name},
    )


def ended_in_place(evidence: Evidence) -> Iterator[Clue]:
    """Yield `REASON exit CODE` of failed containers that their pods started again: out-of-memory first, then the
    latest."""
    failures = [one for one in failures_of(current(evidence.seen)) if one.end is one.container.last_state.terminated]
    latest_first = sorted(failures, key=lambda failure: failure.end.finished_at or "", reverse=True)
    for failure in sorted(latest_first, key=lambda failure: not failure.oom):
        code = "unknown" if failure.end.exit_code is None else failure.end.exit_code
        count = str(failure.container.restart_count)
        yield Clue(
            text=f"{failure.end.reason or 'Error'} exit {code}",
            where=place(failure.pod),
            quoted=tuple(failure.end.message.strip().splitlines()[-3:]),
            values={"count": count, "pods": str(len({failure.pod.name for failure in failures}))},
        )


def jobset(evidence: Evidence) -> Iterator[Clue]:
    """Yield `type reason: message` of each condition that is True, and of the end of its Workload."""
    held, workload = evidence.seen.jobset, evidence.seen.workload
    conditions = [(f"JobSet {held.name}", condition) for condition in held.conditions] if held else []
    if workload is not None:
        ends = (condition for condition in workload.conditions if condition.type == "Finished")
        conditions += [(f"Kueue Workload {workload.name}", condition) for condition in ends]
    for where, condition in conditions:
        if condition.status == "True":
            yield Clue(text=f"{condition.type} {condition.reason}: {condition.message}", where=where)


def reason(evidence: Evidence) -> Iterator[Clue]:
    """Yield `state reason`, for rules that need nothing else."""
    yield Clue(text=f"{evidence.status.state} {evidence.status.reason}", quoted=())


def silence(evidence: Evidence) -> Iterator[Clue]:
    """Yield `state reason` and the worker whose log became silent first: the others wait for it in a collective."""
    logs = [log for log in evidence.logs or () if log.said_at]
    first: Log | None = min(logs, key=lambda log: (log.said_at or "", log.slice_index, log.host), default=None)
    yield Clue(
        text=f"{evidence.status.state} {evidence.status.reason}",
        where=place(first) if first else "",
        quoted=first.lines[-2:] if first else (),
        values={"first": f"{place(first)} stopped printing first." if first and len(logs) > 1 else ""},
    )


def worth(evidence: Evidence) -> Iterator[Clue]:
    """Yield `state reason` and the last step's line that shows it."""
    status = evidence.status
    line, where = _last_line(evidence, _SHOWS[status.reason]) if is_worthless(status.reason) else ("", "")
    yield Clue(text=f"{status.state} {status.reason}", where=where, quoted=(line,) if line else ())


def zero_loss(evidence: Evidence) -> Iterator[Clue]:
    """Yield `zero` if the loss is 0.000 repeatedly."""
    progress = evidence.seen.progress
    if progress is not None and progress.zero_loss_steps >= ENOUGH:
        line, where = _last_line(evidence, _SHOWS_ZERO)
        yield Clue(text="zero", where=where, quoted=(line,) if line else ())


def recorded(evidence: Evidence) -> Iterator[Clue]:
    """Yield the record's text, if the state comes from the record."""
    record = evidence.seen.record
    if record and record.reason and evidence.status.evidence == ("record",):
        yield Clue(text=record.reason, where="record", quoted=(), values={"said": record.reason})


def meaning(evidence: Evidence) -> Iterator[Clue]:
    """Yield the reason's meaning from the table of reasons."""
    listed_reason = BY_SLUG.get(evidence.status.reason)
    yield Clue(
        text="state", quoted=(), values={"meaning": listed_reason.meaning if listed_reason else evidence.status.reason}
    )


_SHOWS: dict[Worthless, re.Pattern[str]] = {
    "no-target-tokens": re.compile(r"completed .*step: .*total_weights: 0(\.0*)?,"),
    "loss-not-finite": re.compile(r"completed .*step: .*(?<![_a-z])loss: [-+]?(nan|inf)"),
}
_SHOWS_ZERO = re.compile(r"completed .*step: .*(?<![_a-z])loss: 0\.0*,")
"""The line of such a step; source: maxtext@0.2.5 common/metric_logger.py."""


def _last_line(evidence: Evidence, shows: re.Pattern[str]) -> tuple[str, str]:
    """Return the last line and its process; empty if no log has a line."""
    lines = ((line, place(log)) for log in evidence.logs or () for line in reversed(log.lines))
    return next(((line, where) for line, where in lines if shows.search(line)), ("", ""))


def unread(evidence: Evidence) -> Iterator[Clue]:
    """Yield `what: why` of each source that could not be read."""
    for source in evidence.seen.unread:
        yield Clue(text=f"{source.what}: {source.why}")


RESTARTED = "RestartJobSetFailurePolicyAction"
"""source: jobset@v0.10.1 pkg/constants/constants.go; its message names the Job that failed first."""
MEMORY = frozenset({"OOMKilling", "SystemOOM"})
"""Reasons of events of a node. source: node-problem-detector config/kernel-monitor.json, which GKE runs;
kubernetes@v1.35 pkg/kubelet/oom/oom_watcher_linux.go.
"""
TAKEN = frozenset({"Evicted", "NodeNotReady"})
"""Reasons of warnings about a pod that its node or its loss ended. source: kubernetes@v1.35
pkg/kubelet/eviction/helpers.go, pkg/controller/util/node/controller_utils.go.
"""
NEAR_S = 600.0
"""Seconds before a restart in which an event of a node may be its cause."""

_FIRST = re.compile(r"first failed job: ([^)\s]+)")


def restart(evidence: Evidence) -> Iterator[Clue]:
    """Yield `found`, `memory MESSAGE`, `pod REASON: MESSAGE`, `job NAME REASON` or `nothing`: the best remaining
    evidence of the latest restart."""
    jobset = evidence.seen.jobset
    if jobset is None or jobset.restarts <= 0:
        return
    restarts = [event for event in evidence.events or () if event.reason == RESTARTED]
    last = max(restarts, key=lambda event: event.at, default=None)  # Kubernetes deletes events after an hour
    before = evidence.seen.before
    lines = tuple(_event_line(one) for one in _jobs(evidence, last))
    if before is not None and before.found:
        yield Clue(text="found", quoted=lines, values={"found": before.found})
    for killing in _near(evidence.node_events, MEMORY, last):
        yield _event_clue("memory", killing, lines)
    for ending in _near(evidence.events, TAKEN, last):
        yield _event_clue("pod", ending, lines)
    if last is not None:
        job = match[1] if (match := _FIRST.search(last.message)) else ""
        reason = next((one.reason for one in _jobs(evidence, last) if one.object == f"Job/{job}"), "")
        yield Clue(text=f"job {job} {reason}", where=f"Job {job}" if job else "", quoted=lines, values={"at": last.at})
    yield Clue(text="nothing", quoted=())


def restart_words(evidence: Evidence) -> dict[str, str]:
    """Return the placeholders of messages about a restart; empty if there was none."""
    jobset = evidence.seen.jobset
    if jobset is None or jobset.restarts <= 0:
        return {"times": "", "before": "", "kept_logs": "", "restarting_exits": ""}
    limit = jobset.max_restarts
    # GKE labels log entries with their pod's labels, dots replaced by underscores; source: GoogleCloudPlatform/
    # observability-analytics-samples samples/logging/kubernetes/k8s_tpu_jobset_stdout.sql
    label = 'labels."k8s-pod/jobset_sigs_k8s_io/'
    query = f'{label}jobset-name"="{jobset.name}" {label}restart-attempt"="{jobset.restarts - 1}"'
    return {
        "times": f"{jobset.restarts} of {limit} times" if limit else f"{jobset.restarts} times",
        "before": _before(evidence),
        "kept_logs": f"If GKE keeps its earlier log, read it: gcloud logging read '{query}'",
        "restarting_exits": _RESTARTING if jobset.ours else "",
    }


_RESTARTING = (
    "Only exit codes 42 and 127 to 255 are restarted: the process was killed (out of memory, or with its node), a "
    "native library crashed, or the trainer requested a restart."
)
"""source: xpk@1.16.0 commands/workload.py, podFailurePolicy."""


def _before(evidence: Evidence) -> str:
    before = evidence.seen.before
    if before is None:
        return ""
    reason = f" ({before.reason})" if before.reason else ""
    step = f", step {before.step}" if before.step is not None else ""
    saved = f", checkpoint {before.saved_step}" if before.saved_step is not None else ""
    return f"When xsft last saw it before that, at {with_z(before.at)}, it was {before.state}{reason}{step}{saved}."


def _jobs(evidence: Evidence, last: Event | None) -> list[Event]:
    """Return the restart's event and the failures of Jobs just before it; the Jobs themselves are deleted."""
    ended = [event for event in evidence.events or () if event.object.startswith("Job/") and event.reason in JOB_ENDS]
    nearby = [event for event in ended if last is None or _is_near(event, last)]
    return [*([last] if last else []), *sorted(nearby, key=lambda event: (event.at, event.object), reverse=True)]


def _near(events: Sequence[Event] | None, reasons: frozenset[str], last: Event | None) -> list[Event]:
    """Return the events with these reasons that are near the restart, the latest first."""
    named = [event for event in events or () if event.reason in reasons and (last is None or _is_near(event, last))]
    return sorted(named, key=lambda event: event.at, reverse=True)


def _event_clue(kind: str, event: Event, lines: Sequence[str]) -> Clue:
    text = f"{kind} {event.reason}: {event.message}"
    return Clue(text=text, where=event.object, quoted=(_event_line(event), *lines), values={"at": event.at})


def _is_near(event: Event, last: Event) -> bool:
    """Return whether two times are near; clocks of nodes differ by seconds."""
    passed = seconds_between(event.at, last.at)
    return passed is not None and -60.0 <= passed <= NEAR_S


def _event_line(event: Event) -> str:
    return f"{event.at} {event.object} {event.reason}: {event.message}"
