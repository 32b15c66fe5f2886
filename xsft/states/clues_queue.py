"""Clues for the rules of `why`: a run that waits in its queue or lost its quota. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.naming import list_names
from xsft.problems import errors_in
from xsft.states.evidence import Evidence
from xsft.states.rule import Clue


def kueue(evidence: Evidence) -> Iterator[Clue]:
    """Yield Kueue's message about quota that is not reserved."""
    workload = evidence.seen.workload
    for condition in workload.conditions if workload else ():
        if condition.type == "QuotaReserved" and condition.status != "True" and condition.message:
            yield Clue(text=condition.message, where=f"Kueue Workload {workload.name if workload else ''}")


def eviction(evidence: Evidence) -> Iterator[Clue]:
    """Yield `reason: message` of the condition Evicted=True."""
    workload = evidence.seen.workload
    for condition in workload.conditions if workload else ():
        if condition.type == "Evicted" and condition.status == "True":
            by = f"by {evidence.preemptor}" if evidence.preemptor else "by a run of higher priority"
            yield Clue(
                text=f"{condition.reason}: {condition.message}",
                where=f"Kueue Workload {workload.name if workload else ''}",
                values={"by": by},
            )


def cluster_queue(evidence: Evidence) -> Iterator[Clue]:
    """Yield `Active=False reason: message` of the ClusterQueue."""
    found = evidence.cluster_queue
    if found and found.status != "True":
        name = evidence.seen.workload.cluster_queue if evidence.seen.workload else None
        where = f"ClusterQueue {name}" if name else "ClusterQueue"
        yield Clue(text=f"Active={found.status} {found.reason}: {found.message}", where=where)


def behind(evidence: Evidence) -> Iterator[Clue]:
    """Yield `N higher` or `N before`: the runs ahead in the queue."""
    workload = evidence.seen.workload
    mine = workload.priority if workload else None
    higher = [
        one for one in evidence.ahead or () if one.priority is not None and mine is not None and one.priority > mine
    ]
    kind = "higher" if higher else "before"
    found = higher or list(evidence.ahead or ())
    if found:
        values = {"count": str(len(found)), "names": list_names([one.name for one in found])}
        yield Clue(text=f"{len(found)} {kind}", quoted=(), values=values)


def missing(evidence: Evidence) -> Iterator[Clue]:
    """Yield `Kind/name` of each object that the run names and the cluster does not have."""
    for one in evidence.missing or ():
        yield Clue(text=one, where=one, quoted=())


def refused(evidence: Evidence) -> Iterator[Clue]:
    """Yield the API server's answer to a dry run of the missing Jobs; `taken` if it accepts them, nothing if the user
    may not ask."""
    if evidence.dry_run is None:
        return
    for one in errors_in(evidence.dry_run):
        yield Clue(
            text=f"refused {one.message}",
            quoted=(one.message,),
            where=one.where,
            values={"refused": one.message, "mend": one.fix},
        )
    if not evidence.dry_run:
        yield Clue(text="taken", quoted=())
