"""The evidence that `xsft why` reads: of a run on a cluster, and of one on this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from msgspec.structs import replace

from xsft.base.errors import XsftError
from xsft.cluster.evidence import Evidence, Log
from xsft.cluster.observation import Observation
from xsft.machine.kept_log import read_log
from xsft.runs.failures import diagnose
from xsft.runs.folding import FoldedRun
from xsft.runs.forgotten import attempt_gone
from xsft.runs.lastknown import recall
from xsft.runs.read_all import Runs
from xsft.runs.read_evidence import read_evidence

TAIL = 2000
"""Lines read from the end of a log; a traceback through JAX has several hundred."""


def evidence_of(runs: Runs, hit: FoldedRun) -> Evidence:
    """Return a run's evidence; raises nothing for what cannot be read."""
    if hit.seen.on_this_machine:
        log = _local_log(runs, hit)
        return Evidence(seen=hit.seen, status=hit.status, logs=(log,) if log else None)
    if hit.seen.jobset is None:
        return Evidence(seen=hit.seen, status=hit.status)
    cluster = runs.cluster(hit.seen.cluster or "")
    return read_evidence(cluster, seen=hit.seen, status=hit.status, attempts=hit.attempts)


def forgotten_attempt(runs: Runs, hit: FoldedRun, number: int) -> Observation | None:
    """Return what an attempt's record says; None if there is no record, or none can be read."""
    try:
        records = runs.records(hit.seen)
    except XsftError:
        return None
    record = next((one for one in records if one.last.number == number), None)
    if record is None:
        return None
    cluster = hit.seen.cluster or ""
    known = partial(recall, runs.store.state, cluster=cluster)
    seen = attempt_gone(record, cluster=cluster, known=lambda where: known(namespace=where), now=runs.store.now())
    return replace(seen, target=hit.seen.target, cluster=hit.seen.cluster, output=hit.seen.output)


def _local_log(runs: Runs, hit: FoldedRun) -> Log | None:
    """Return the log of a local run; None if no record names it, or it is gone."""
    progress = hit.seen.progress
    try:
        number = hit.seen.record.number if hit.seen.record else None
        its = [one for one in runs.records(hit.seen) if one.attempts and number in (None, one.last.number)]
        path = its[-1].last.log if its else ""
        lines = tuple(read_log(Path(path), tail=TAIL)) if path else ()
    except XsftError:
        return None
    if not lines:
        return None
    said_at = progress.said_at if progress else None
    return Log(replicated_job="", slice_index=0, host=0, pod="", lines=lines, said=diagnose(lines), said_at=said_at)
