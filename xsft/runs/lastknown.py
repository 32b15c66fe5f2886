"""The last known state of runs: used if their cluster does not answer, and for runs that it no longer has.

One small file per cluster and namespace in the state folder, written atomically: a header line, then one line per
attempt of a run. Its content is old and is shown as old; it never turns a run into a failed one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, convert, to_builtins
from msgspec.json import Decoder
from msgspec.structs import replace

from xsft.base.amounts import seconds_between
from xsft.base.errors import XsftError
from xsft.base.lenient import text, whole
from xsft.base.state_names import ENDED, RUNNING
from xsft.cluster.observation import Before, Observation, Recorded, RunObject, Status, Unread
from xsft.machine.files import write_private
from xsft.machine.regular import open_regular, read_text
from xsft.records.index import IndexEntry, entry_of
from xsft.runs.classify import admitted_at
from xsft.runs.read_scope import may_have_progress, was_passed_over
from xsft.trainer.progress import Progress

if TYPE_CHECKING:
    from xsft.records.record import Record


class LastKnown(Struct, frozen=True, kw_only=True):
    """The last known state of one attempt of a run."""

    jobset: RunObject
    status: Status
    observed_at: str
    read_at: str = ""
    """As of `Observation`."""
    progress: Progress | None = None
    steps: int | None = None
    mode: str | None = None
    before: Before | None = None
    """State before its latest restart."""
    found: str = ""
    """Why one of its processes failed, as `why` found."""
    ended_at: str | None = None
    """End from its record, if its JobSet does not give it."""
    unheard: bool = False
    """True if it ended and its last log lines were not read: `progress` is older."""
    gone: bool = False
    """True if it was last seen active, and its cluster no longer has the JobSet."""

    @property
    def ended(self) -> bool:
        return self.status.state in ENDED

    def observation(self, cluster: str, *, unread: tuple[Unread, ...]) -> Observation:
        """Return the observation of that time, with its age."""
        return replace(
            bare_row(self.jobset, cluster=cluster, at=self.observed_at),
            read_at=self.read_at,
            mode=self.mode,
            steps=self.steps,
            progress=self.progress,
            unread=unread,
            last_known=self.status,
            before=self.before,
        )

    def as_before(self) -> Before:
        progress = self.progress
        step, saved = (progress.step, progress.saved_step) if progress else (None, None)
        return Before(
            at=self.observed_at,
            state=self.status.state,
            reason=self.status.reason,
            step=step,
            saved_step=saved,
            found=self.found,
        )


def bare_row(run: RunObject, *, cluster: str, at: str) -> Observation:
    """Return what the run's object alone shows."""
    return Observation(
        run_name=run.run_name,
        target=run.target,
        observed_at=at,
        mode=run.mode,
        cluster=cluster,
        steps=run.steps,
        jobset=run,
    )


Decoder(LastKnown)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


def line_of(last: LastKnown) -> str:
    """Return the line, without what changes quickly."""
    progress = last.progress
    ends = tuple(
        replace(condition, message="")
        for condition in last.jobset.conditions
        if condition.type in ("Completed", "Failed") and condition.status == "True"
    )
    lasting = replace(
        last,
        jobset=replace(
            last.jobset,
            conditions=ends,
            jobs=(),
            suspended=False,
            has_status=True,
            deleting_at=None,
            image=None,
        ),
        progress=progress and replace(progress, phase=None, began_at=None, resumed_order=None),
    )
    return json.dumps(to_builtins(lasting))


def read_line(written: str) -> LastKnown | None:
    """Return what the line says, or None if it is not a line of a run."""
    try:
        document = json.loads(written)
        for condition in document["jobset"]["conditions"]:
            if "at" in condition:  # written before conditions had the names of the API
                condition["lastTransitionTime"] = condition.pop("at")
        return convert(document, LastKnown)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None


SCHEMA = "xsft.known/3"
_FAMILY = SCHEMA.partition("/")[0]
FORGET_AFTER_S = 14 * 24 * 3600.0
"""Seconds for which the last state of a run is kept after its cluster no longer has the run."""
MAX_RUNS = 3000
MAX_BYTES = 16 * 1024 * 1024


def remember(state: Path, observations: Iterable[tuple[Observation, Status]], *, now: str) -> None:
    """Save what was read of each run. An error in writing the file is ignored: it does not concern the runs.

    For a run whose JobSet is gone, the end that its record shows is saved, so that it is not read again.
    """
    by_place: dict[tuple[str, str], list[LastKnown]] = defaultdict(list)
    for one, status in observations:
        jobset = one.jobset or (one.was if status.state in ENDED else None)
        if one.cluster and jobset and one.last_known is None and status.state != "unknown":
            by_place[one.cluster, jobset.namespace].append(_state_to_keep(one, jobset, status))
    for (cluster, namespace), several in by_place.items():
        path = _states_path(state, cluster, namespace)
        saved = _read_states(path)
        fresh = [_with_told(one, saved.get(one.jobset.uid)) for one in several]
        uids = {one.jobset.uid for one in fresh}
        older = []
        for uid, last in saved.items():
            age = seconds_between(last.observed_at, now)
            if uid not in uids and age is not None and age <= FORGET_AFTER_S:
                older.append(last)
        _write_states(path, (*fresh, *older), cluster=cluster, namespace=namespace, now=now)


def newly_failed_jobs(
    state: Path, observations: Iterable[tuple[Observation, Status]]
) -> tuple[tuple[RunObject, str], ...]:
    """Return the jobs of conversions, exports and evaluations that failed since the last read was saved, with the
    reason. Each cluster's file is read once, and only if a job of it has failed.
    """
    failed = [
        (one.cluster, one.jobset, status.reason)
        for one, status in observations
        if one.cluster and one.jobset and one.jobset.work and not one.jobset.serves
        if one.last_known is None and status.state == "failed"
    ]
    places = {(cluster, job.namespace) for cluster, job, _ in failed}
    before = {place: recall(state, cluster=place[0], namespace=place[1]) for place in places}
    before_and_now = ((before[cluster, job.namespace].get(job.uid), job, reason) for cluster, job, reason in failed)
    return tuple((job, reason) for last, job, reason in before_and_now if last is None or not last.ended)


def _with_told(current: LastKnown, last: LastKnown | None) -> LastKnown:
    """Return the state with the findings and the progress of the saved state, if this read has none.

    Findings on a failure are kept until the run is restarted (`before` holds them then) or is running. Progress that
    was not read this time is kept too.
    """
    unfound = not current.found and current.status.state not in RUNNING
    unasked = current.progress is None and (current.unheard or not current.ended)
    if last is None or last.jobset.restarts != current.jobset.restarts:
        return current
    return replace(
        current,
        found=last.found if unfound else current.found,
        progress=last.progress if unasked else current.progress,
    )


def forget_run(state: Path, run_name: str, *, now: str) -> bool:
    """Delete what was last seen of that run on any cluster, and its entries in the index. Return whether there were
    any.
    """
    entries = list((state / "runs").glob(f"{escape(run_name[:100])}-{'[0-9a-f]' * 12}.json"))
    for path in entries:
        path.unlink(missing_ok=True)
    was_seen = False
    for path in (state / "known").glob("*.jsonl"):
        states = _read_states(path)
        others = [last for last in states.values() if last.jobset.run_name != run_name]
        if len(others) < len(states):
            was_seen = True
            header = json.loads(read_text(path).partition("\n")[0])
            _write_states(path, others, cluster=header["cluster"], namespace=header["namespace"], now=now)
    return was_seen or bool(entries)


def gone_of(last_seen: Mapping[str, LastKnown], uids: Collection[str]) -> frozenset[str]:
    """Return the UIDs of the runs that were active at the last read, and whose JobSet is not among these."""
    return frozenset(uid for uid, last in last_seen.items() if not (last.ended or last.gone or uid in uids))


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
    ordered = sorted(several, key=lambda last: last.observed_at, reverse=True)[:MAX_RUNS]
    first = json.dumps({"schema": SCHEMA, "cluster": cluster, "namespace": namespace, "at": now})
    with suppress(XsftError, OSError):
        write_private(path, "".join(f"{line}\n" for line in (first, *map(line_of, ordered))))


def _states_path(state: Path, cluster: str, namespace: str) -> Path:
    where = hashlib.sha256(f"{cluster}\0{namespace}".encode()).hexdigest()[:12]
    return state / "known" / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', cluster)[:80]}-{where}.jsonl"


def _state_to_keep(observation: Observation, jobset: RunObject, status: Status) -> LastKnown:
    return LastKnown(
        jobset=jobset,
        status=status,
        observed_at=observation.observed_at,
        read_at=observation.read_at,
        progress=observation.progress,
        steps=observation.steps,
        mode=observation.mode,
        before=observation.before,
        found=observation.found,
        ended_at=observation.record.finished_at if observation.record and observation.jobset is None else None,
        unheard=status.state in ENDED and was_passed_over(observation),
    )


def _read_states(path: Path) -> dict[str, LastKnown]:
    """Return the states by UID: of a file of another version, or a truncated one, those that can be parsed."""
    try:
        with open_regular(path) as file:
            first, *lines = file.read(MAX_BYTES).decode("utf-8", "replace").split("\n")
        header = json.loads(first)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(header, dict) or str(header.get("schema")).partition("/")[0] != _FAMILY:
        return {}
    return {last.jobset.uid: last for text in lines if (last := read_line(text))}


def with_known(observation: Observation, last_seen: Mapping[str, LastKnown]) -> Observation:
    """Return the observation with what is already known of it.

    The log of a run does not change after the run ended, so it is not read again. For a restarted run, the state before
    the restart is added.
    """
    jobset = observation.jobset
    if jobset is None or (jobset.terminal is None and not jobset.restarts):
        return observation
    last = last_seen.get(jobset.uid)
    if last is None:
        return observation
    if jobset.terminal is None:
        return replace(observation, before=last.as_before() if last.jobset.restarts < jobset.restarts else last.before)
    observation = replace(observation, before=last.before)
    if not last.ended:
        return observation
    return replace(observation, progress=None if last.unheard else last.progress, known_end=last.status)


def with_last_words(observation: Observation, last_seen: Mapping[str, LastKnown]) -> Observation:
    """Return the observation with the progress of the last read, for what cannot be read now.

    All of it for a failed run whose log is gone with its pods, for a run that lost a pod since it was admitted, and for
    a run whose JobSet is gone. Not for a completed run: an older step could be taken for its last. The last checkpoint
    for any other run, since the end of a log need not contain it.
    """
    progress, gone = observation.progress, observation.jobset is None
    known_run = last_seen.get(observation.held.uid) if observation.held else None
    last = known_run.progress if known_run else None
    if last is None:
        return observation
    if progress is None:
        stopped = observation.jobset is None or _stopped_since(observation, observation.jobset, last)
        return replace(observation, progress=last) if stopped else observation
    if progress.saved_step is not None and not gone:
        return observation
    saved = last.saved_step if progress.saved_step is None else progress.saved_step
    if gone and last.step is not None and last.step > (progress.step or 0):
        return replace(observation, progress=replace(last, saved_step=saved))
    return replace(observation, progress=replace(progress, saved_step=saved))


def _stopped_since(observation: Observation, jobset: RunObject, last: Progress) -> bool:
    """Return whether the run failed, or its pods do not run any more, since that progress was read."""
    if jobset.terminal is not None or jobset.suspended or may_have_progress(observation):
        return jobset.terminal == "Failed"
    passed = seconds_between(admitted_at(observation, jobset), last.read_at)
    return jobset.restarts == 0 and passed is not None and passed > 0


def forgotten(entry: IndexEntry, *, cluster: str, known: Mapping[str, LastKnown], now: str) -> Observation:
    """Return the observation of a run that was submitted from this machine and whose JobSet is not on the cluster."""
    last = known.get(entry.uid or "")
    ended = last if last and last.ended else None
    return Observation(
        run_name=entry.run_name,
        target=entry.target,
        observed_at=now,
        mode=entry.mode,
        cluster=cluster,
        steps=entry.steps or None,
        was=last.jobset if last else None,
        record=Recorded(
            outcome="created" if entry.uid else "submitting",
            jobset=entry.jobset,
            uid=entry.uid,
            work=entry.work,
            started_at=entry.updated_at or None,
            finished_at=ended.ended_at if ended else None,
        ),
        last_known=ended.status if ended else None,
        progress=ended.progress if ended else None,
    )


def recorded_of(records: Sequence[Record], uid: str | None) -> Recorded | None:
    """Return the record's attempt with that JobSet UID, else the last attempt."""
    attempts = [record.last for record in records if record.attempts]
    attempt = next((other for other in attempts if uid and other.uid == uid), attempts[-1] if attempts else None)
    if attempt is None:
        return None
    return Recorded(
        outcome=attempt.outcome,
        reason=attempt.reason,
        state_reason=attempt.state_reason or "",
        jobset=attempt.jobset,
        uid=attempt.uid,
        started_at=attempt.started_at or None,
        finished_at=attempt.finished_at,
        work=text(attempt.resolved.get("work")),
        number=attempt.number,
        tpu=text(attempt.resolved.get("tpu")),
        num_slices=whole(attempt.resolved.get("num_slices")),
    )


def attempt_gone(
    record: Record, *, cluster: str, known: Callable[[str], Mapping[str, LastKnown]], now: str
) -> Observation:
    """Return the observation of an earlier attempt, from its record. `known`: returns what earlier reads saw in a
    namespace.
    """
    entry = entry_of(record, path="", at=record.last.started_at)
    before = known(record.last.namespace or "default") if record.on_cluster else {}
    observation = forgotten(entry, cluster=cluster, known=before, now=now)
    last = before.get(record.last.uid or "")
    return replace(
        observation, record=recorded_of((record,), record.last.uid), progress=last.progress if last else None
    )


def went_to(entry: IndexEntry, *, cluster: str, namespace: str) -> bool:
    where = (entry.cluster.name if entry.cluster else "", entry.namespace or "default")
    return entry.on_cluster and where == (cluster, namespace)
