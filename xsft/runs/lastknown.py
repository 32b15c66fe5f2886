"""The last known state of runs: used if their cluster does not answer, and for runs that it no longer has.

One small file per cluster and namespace in the state folder, written atomically: a header line, then one line per
attempt of a run. Its content is old and is shown as old; it never turns a run into a failed one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from xsft.base.errors import XsftError
from xsft.base.moments import seconds_between
from xsft.base.state_names import ENDED, RUNNING
from xsft.cluster.observation import Observation, RunObject, Status
from xsft.machine.files import write_private
from xsft.machine.regular import open_regular
from xsft.runs.lastknown_line import LastKnown, line_of, read_line
from xsft.runs.read_scope import was_passed_over

SCHEMA = "xsft.known/3"
_FAMILY = SCHEMA.partition("/")[0]
FORGET_AFTER_S = 14 * 24 * 3600.0
"""Seconds for which the last state of a run is kept after its cluster no longer has the run."""
MAX_RUNS = 3000
MAX_BYTES = 16 * 1024 * 1024


def remember(state: Path, seen: Iterable[tuple[Observation, Status]], *, now: str) -> None:
    """Save what was read of each run. An error in writing the file is ignored: it does not concern the runs.

    For a run whose JobSet is gone, the end that its record shows is saved, so that it is not read again.
    """
    by_place: dict[tuple[str, str], list[LastKnown]] = defaultdict(list)
    for one, status in seen:
        jobset = one.jobset or (one.was if status.state in ENDED else None)
        if one.cluster and jobset and one.last_known is None and status.state != "unknown":
            by_place[one.cluster, jobset.namespace].append(_state_to_keep(one, jobset, status))
    for (cluster, namespace), several in by_place.items():
        path = _states_path(state, cluster, namespace)
        there = _read_states(path)
        fresh = [_with_told(one, there.get(one.jobset.uid)) for one in several]
        uids = {one.jobset.uid for one in fresh}
        older = [one for uid, one in there.items() if uid not in uids and not _is_outdated(one, now)]
        _write_states(path, (*fresh, *older), cluster=cluster, namespace=namespace, now=now)


def newly_failed_jobs(state: Path, seen: Iterable[tuple[Observation, Status]]) -> tuple[tuple[RunObject, str], ...]:
    """Return the jobs of conversions, exports and evaluations that failed since the last read was saved, with the
    reason. Each cluster's file is read once, and only if a job of it has failed.
    """
    failed = [
        (one.cluster, one.jobset, status.reason)
        for one, status in seen
        if one.cluster and one.jobset and one.jobset.work and not one.jobset.serves
        if one.last_known is None and status.state == "failed"
    ]
    places = {(cluster, job.namespace) for cluster, job, _ in failed}
    before = {place: recall(state, cluster=place[0], namespace=place[1]) for place in places}
    known = ((before[cluster, job.namespace].get(job.uid), job, reason) for cluster, job, reason in failed)
    return tuple((job, reason) for last, job, reason in known if last is None or not last.ended)


def _with_told(known: LastKnown, last: LastKnown | None) -> LastKnown:
    """Return the state with the findings and the progress of the saved state, if this read has none.

    Findings on a failure are kept until the run is restarted (`before` holds them then) or is running. Progress that
    was not read this time is kept too.
    """
    unfound = not known.found and known.status.state not in RUNNING
    unasked = known.progress is None and (known.unheard or not known.ended)
    if last is None or last.jobset.restarts != known.jobset.restarts:
        return known
    return replace(
        known,
        found=last.found if unfound else known.found,
        progress=last.progress if unasked else known.progress,
    )


def gone_of(known: Mapping[str, LastKnown], uids: Collection[str]) -> frozenset[str]:
    """Return the UIDs of the runs that were active at the last read, and whose JobSet is not among these."""
    return frozenset(uid for uid, last in known.items() if not (last.ended or last.gone or uid in uids))


def forget(state: Path, *, cluster: str, namespace: str, gone: Collection[str], now: str) -> None:
    """Mark the runs whose JobSet is gone (`gone_of`), after the cluster has answered: they must not be shown as active
    once it does not answer. Their progress is kept.
    """
    if gone:
        path = _states_path(state, cluster, namespace)
        states = [replace(last, gone=True) if uid in gone else last for uid, last in _read_states(path).items()]
        _write_states(path, states, cluster=cluster, namespace=namespace, now=now)


def recall(state: Path, *, cluster: str, namespace: str) -> Mapping[str, LastKnown]:
    """Return the saved states of one namespace, by the JobSet's UID; empty if nothing was saved or the file cannot be
    parsed."""
    return _read_states(_states_path(state, cluster, namespace))


def _write_states(path: Path, several: Iterable[LastKnown], *, cluster: str, namespace: str, now: str) -> None:
    ordered = sorted(several, key=lambda one: one.observed_at, reverse=True)[:MAX_RUNS]
    first = json.dumps({"schema": SCHEMA, "cluster": cluster, "namespace": namespace, "at": now})
    with suppress(XsftError, OSError):
        write_private(path, "".join(f"{line}\n" for line in (first, *map(line_of, ordered))))


def _is_outdated(known: LastKnown, now: str) -> bool:
    age = seconds_between(known.observed_at, now)
    return age is None or age > FORGET_AFTER_S


def _states_path(state: Path, cluster: str, namespace: str) -> Path:
    where = hashlib.sha256(f"{cluster}\0{namespace}".encode()).hexdigest()[:12]
    return state / "known" / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', cluster)[:80]}-{where}.jsonl"


def _state_to_keep(seen: Observation, jobset: RunObject, status: Status) -> LastKnown:
    return LastKnown(
        jobset=jobset,
        status=status,
        observed_at=seen.observed_at,
        ahead_s=seen.ahead_s,
        progress=seen.progress,
        steps=seen.steps,
        mode=seen.mode,
        before=seen.before,
        found=seen.found,
        ended_at=seen.record.finished_at if seen.record and seen.jobset is None else None,
        unheard=status.state in ENDED and was_passed_over(seen),
    )


def _read_states(path: Path) -> dict[str, LastKnown]:
    """Return the states by UID: of a file of another version, or a truncated one, those that can be parsed."""
    try:
        with open_regular(path) as file:
            first, *rest = file.read(MAX_BYTES).decode("utf-8", "replace").split("\n")
        said = json.loads(first)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(said, dict) or str(said.get("schema")).partition("/")[0] != _FAMILY:
        return {}
    return {known.jobset.uid: known for text in rest if (known := read_line(text))}
