"""Runs that were submitted from this machine and whose JobSet is no longer on the cluster: known from the index and
from the record beside their output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xsft.base.lenient import text, whole
from xsft.cluster.observation import Observation, Recorded
from xsft.records.index import IndexEntry, entry_of
from xsft.runs.lastknown_line import LastKnown

if TYPE_CHECKING:
    from xsft.records.record import Record


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
        ahead_s=last.ahead_s if last else 0.0,
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
    found = next((one for one in attempts if uid and one.uid == uid), attempts[-1] if attempts else None)
    if found is None:
        return None
    return Recorded(
        outcome=found.outcome,
        reason=found.reason,
        state_reason=found.state_reason or "",
        jobset=found.jobset,
        uid=found.uid,
        started_at=found.started_at or None,
        finished_at=found.finished_at,
        work=text(found.resolved.get("work")),
        number=found.number,
        tpu=text(found.resolved.get("tpu")),
        num_slices=whole(found.resolved.get("num_slices")),
    )


def attempt_gone(
    record: Record, *, cluster: str, known: Callable[[str], Mapping[str, LastKnown]], now: str
) -> Observation:
    """Return the observation of an earlier attempt, from its record. `known`: returns what earlier reads saw in a
    namespace.
    """
    entry = entry_of(record, path="", at=record.last.started_at)
    before = known(record.last.namespace or "default") if record.on_cluster else {}
    seen = forgotten(entry, cluster=cluster, known=before, now=now)
    last = before.get(record.last.uid or "")
    return replace(seen, record=recorded_of((record,), record.last.uid), progress=last.progress if last else None)


def went_to(entry: IndexEntry, *, cluster: str, namespace: str) -> bool:
    where = (entry.cluster.name if entry.cluster else "", entry.namespace or "default")
    return entry.on_cluster and where == (cluster, namespace)
