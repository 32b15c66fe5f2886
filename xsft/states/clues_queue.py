"""What the rules of `why` look at where a run waits in its queue or lost its quota. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.states.evidence import Evidence
from xsft.states.rule import Clue


def kueue(evidence: Evidence) -> Iterator[Clue]:
    """Why Kueue has not reserved quota, in its words."""
    workload = evidence.seen.workload
    for condition in workload.conditions if workload else ():
        if condition.type == "QuotaReserved" and condition.status != "True" and condition.message:
            yield Clue(text=condition.message, where=f"Kueue Workload {workload.name if workload else ''}")


def eviction(evidence: Evidence) -> Iterator[Clue]:
    """`reason: message` of Evicted=True."""
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
    """`Active=False reason: message` of the ClusterQueue."""
    found = evidence.cluster_queue
    if found and found.status != "True":
        name = evidence.seen.workload.cluster_queue if evidence.seen.workload else None
        where = f"ClusterQueue {name}" if name else "ClusterQueue"
        yield Clue(text=f"Active={found.status} {found.reason}: {found.message}", where=where)


def behind(evidence: Evidence) -> Iterator[Clue]:
    """Where something waits in front of it: `N higher` or `N before`."""
    workload = evidence.seen.workload
    mine = workload.priority if workload else None
    higher = [
        one for one in evidence.ahead or () if one.priority is not None and mine is not None and one.priority > mine
    ]
    kind = "higher" if higher else "before"
    found = higher or list(evidence.ahead or ())
    if found:
        values = {"count": str(len(found)), "names": listed([one.name for one in found])}
        yield Clue(text=f"{len(found)} {kind}", quoted=(), values=values)


def missing(evidence: Evidence) -> Iterator[Clue]:
    """`Kind/name` of what the run names and is not there."""
    for one in evidence.missing or ():
        yield Clue(text=one, where=one, quoted=())


def refused(evidence: Evidence) -> Iterator[Clue]:
    """What the server says to the Jobs the JobSet should have made; `taken` where it has nothing against them."""
    if evidence.dry_run is None:
        return
    for one in evidence.dry_run:
        yield Clue(
            text=f"refused {one.message}",
            quoted=(one.message,),
            where=one.where,
            values={"refused": one.message, "mend": one.fix},
        )
    if not evidence.dry_run:
        yield Clue(text="taken", quoted=())


def listed(names: list[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
