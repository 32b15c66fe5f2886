"""Clues for the rules of `why`: a restarted run, whose earlier pods and logs are gone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from xsft.base.moments import seconds_between, with_z
from xsft.cluster.evidence import Event, Evidence
from xsft.cluster.observation import RunObject
from xsft.runs.cause_rule import Clue
from xsft.runs.clues import JOB_ENDS

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
    last, before = _last_restart_event(evidence), evidence.seen.before
    lines = tuple(_event_line(one) for one in _jobs(evidence, last))
    if before is not None and before.found:
        yield Clue(text="found", quoted=lines, values={"found": before.found})
    for killing in _near(evidence.node_events, MEMORY, last):
        yield _event_clue("memory", killing, lines)
    for taken in _near(evidence.events, TAKEN, last):
        yield _event_clue("pod", taken, lines)
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
    most = jobset.max_restarts
    return {
        "times": f"{jobset.restarts} of {most} times" if most else f"{jobset.restarts} times",
        "before": _before(evidence),
        "kept_logs": _kept_logs(jobset),
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


def _kept_logs(jobset: RunObject) -> str:
    """Return the Cloud Logging query for the log of the earlier pods. GKE labels log entries with their pod's labels,
    dots replaced by underscores.

    source: GoogleCloudPlatform/observability-analytics-samples samples/logging/kubernetes/k8s_tpu_jobset_stdout.sql
    """
    of = 'labels."k8s-pod/jobset_sigs_k8s_io/'
    query = f'{of}jobset-name"="{jobset.name}" {of}restart-attempt"="{jobset.restarts - 1}"'
    return f"If GKE keeps its earlier log, read it: gcloud logging read '{query}'"


def _last_restart_event(evidence: Evidence) -> Event | None:
    """Return the latest event about a restart. Kubernetes deletes events after an hour."""
    found = [one for one in evidence.events or () if one.reason == RESTARTED]
    return max(found, key=lambda one: one.at, default=None)


def _jobs(evidence: Evidence, last: Event | None) -> list[Event]:
    """Return the restart's event and the failures of Jobs just before it; the Jobs themselves are deleted."""
    ended = [one for one in evidence.events or () if one.object.startswith("Job/") and one.reason in JOB_ENDS]
    near = [one for one in ended if last is None or _is_near(one, last)]
    return [*([last] if last else []), *sorted(near, key=lambda one: (one.at, one.object), reverse=True)]


def _near(events: Sequence[Event] | None, reasons: frozenset[str], last: Event | None) -> list[Event]:
    """Return the events with these reasons that are near the restart, the latest first."""
    named = [one for one in events or () if one.reason in reasons and (last is None or _is_near(one, last))]
    return sorted(named, key=lambda one: one.at, reverse=True)


def _event_clue(kind: str, event: Event, lines: Sequence[str]) -> Clue:
    text = f"{kind} {event.reason}: {event.message}"
    return Clue(text=text, where=event.object, quoted=(_event_line(event), *lines), values={"at": event.at})


def _is_near(one: Event, last: Event) -> bool:
    """Return whether two times are near; clocks of nodes differ by seconds."""
    passed = seconds_between(one.at, last.at)
    return passed is not None and -60.0 <= passed <= NEAR_S


def _event_line(event: Event) -> str:
    return f"{event.at} {event.object} {event.reason}: {event.message}"
