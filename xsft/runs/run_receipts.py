"""Read a run's receipt, and keep it beside the run before its log is deleted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from xsft.base.errors import XsftError
from xsft.base.problems import Problem
from xsft.cluster.observation import Observation
from xsft.machine.parallel import call_within
from xsft.records.record import Attempt, Receipt
from xsft.runs.log_sources import RunLogs
from xsft.runs.lookup import FoldedRun, one_run
from xsft.runs.read_all import Runs
from xsft.runs.receipt import cluster_receipt, whole_receipt
from xsft.runs.record_end import record_receipt
from xsft.runs.rows import Row, ended_at
from xsft.trainer.progress import LoggedLine

LIMIT_S = 10.0
"""Maximum seconds that `wait` spends on the receipt at its end."""


def record_wait_end(runs: Runs, row: Row) -> tuple[Problem, ...]:
    """Record beside a cluster's run how it ended: that its steps teach nothing, if so, and its receipt, because its log
    is deleted with its JobSet. Returns warnings if the first cannot be written; the second is computed again when it is
    requested.
    """
    problems = runs.record_worthless(row)
    if row.ended and row.on_cluster:
        with suppress(XsftError):
            call_within(LIMIT_S, lambda: read_receipt(runs, one_run(row.run_name, runs.look())))
    return problems


def read_receipt(runs: Runs, hit: FoldedRun, *, keep: bool = True) -> Receipt | None:
    """Return the receipt of all attempts of a run. Those of this machine are in its records; a JobSet is read itself,
    and with `keep` its receipt is kept in its attempt's record once it is over."""
    output = runs.output_of(hit.seen) if keep else None
    try:
        recorded = tuple(one.last for one in runs.records(hit.seen))
    except XsftError:
        recorded = ()
    if hit.seen.on_this_machine:
        return whole_receipt(recorded)
    by_uid = {one.jobset.uid: one for one in hit.attempts if one.jobset}
    recorded_by_uid = {one.uid: one for one in recorded if one.uid}
    attempts = [
        *recorded_by_uid.values(),
        *(Attempt(number=0, uid=uid) for uid in by_uid if uid not in recorded_by_uid),
    ]
    read = [
        _with_receipt(runs, one, seen=by_uid.get(one.uid or ""), output=output if keep else None) for one in attempts
    ]
    gone = sum(one.receipt is None and one.uid not in by_uid for one in read)
    receipt = whole_receipt([one for one in read if one.receipt])
    if receipt is None or not gone:
        return receipt
    lost_note = f"Nothing is left of {gone} earlier submission{'s' if gone > 1 else ''}: their time is not counted."
    return replace(receipt, notes=(*receipt.notes, lost_note))


def _with_receipt(runs: Runs, attempt: Attempt, *, seen: Observation | None, output: str | None) -> Attempt:
    """Return the attempt with the receipt of its JobSet, unless its record has one or the JobSet is gone."""
    if attempt.receipt is not None or seen is None:
        return attempt
    lines = (LoggedLine(text=line.text, at=line.at) for line in RunLogs(runs=runs).printed(seen))
    receipt = cluster_receipt(seen, lines, first=attempt.resumed_from or 0)
    if receipt is not None and receipt.steps and ended_at(seen) and output and attempt.uid:
        record_receipt(runs.store, output=output, run_name=seen.run_name, receipt=receipt, uid=attempt.uid)
    return replace(attempt, receipt=receipt)
