"""`xsft receipt RUN`: print what a run's chips did, and what they trained."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial

from xsft.commands.documents import print_json
from xsft.commands.log_sources import Logs
from xsft.commands.progress import spinning
from xsft.commands.receipt_text import RunReceipt, receipt_document, receipt_text
from xsft.commands.run_sources import runs_of
from xsft.effects.runs.runs import Runs
from xsft.effects.submit.job_end import record_receipt
from xsft.errors import Unknown, XsftError
from xsft.records.model import Attempt, Receipt
from xsft.run_query import RunQuery, look, query_of
from xsft.states.folding import FoldedRun
from xsft.states.lookup import one_run
from xsft.trainers.cluster_receipt import cluster_receipt
from xsft.trainers.progress import LoggedLine
from xsft.trainers.receipt import whole_receipt

ReadReceipt = Callable[[FoldedRun], Receipt | None]
"""Return the run's receipt; None if nothing is left that tells. Raises XsftError if its log cannot be read."""


def run(args: argparse.Namespace) -> int:
    runs = runs_of(args, args.run)
    return print_receipt(args.run, query=query_of(runs), read=partial(read_receipt, runs), json=args.json)


def print_receipt(name: str, *, query: RunQuery, read: ReadReceipt, json: bool) -> int:
    """Print the receipt and return 0. Raises UsageError for a name that no run has, Unknown if nothing tells."""
    with spinning("receipt", "asking the clusters") as say:
        query.listen(say)
        found, rows = look(query)
        hit = one_run(name, rows, found)
        receipt = read(hit)
    if receipt is None:
        raise Unknown(
            f"Nothing is left of {hit.row.run_name} that tells how its time was spent.",
            fix="Ask before its JobSet is deleted (a day after its end, unless the workload says otherwise).",
        )
    told = RunReceipt(row=hit.row, receipt=receipt)
    if json:
        print_json("receipt", {**receipt_document(told), "problems": [], "exit_status": 0})
    else:
        sys.stdout.writelines(f"{line}\n" for line in receipt_text(told))
    return 0


def read_receipt(runs: Runs, hit: FoldedRun) -> Receipt | None:
    """Return the receipt of a local run from its record, of a cluster's run from its objects and log; from its record
    if they are gone. The receipt of a run that is over is kept in its record."""
    output = runs.output_of(hit.seen)
    attempts = _attempts(runs, hit, output)
    if hit.seen.on_this_machine:
        return whole_receipt(attempts)
    kept = attempts[-1].receipt if attempts else None
    if kept is not None:
        return kept
    receipt = cluster_receipt(hit.seen, hit.row, _lines(runs, hit)) if hit.seen.jobset else None
    if receipt is not None and receipt.steps and hit.row.ended and output:
        record_receipt(runs.store, output=output, run_name=hit.row.run_name, receipt=receipt, uid=hit.row.uid)
    return receipt


def _attempts(runs: Runs, hit: FoldedRun, output: str | None) -> tuple[Attempt, ...]:
    """Return the recorded attempts, the oldest first; none if the records cannot be read."""
    try:
        records = runs.store.read_run(output, hit.row.run_name) if output else ()
    except XsftError:
        return ()
    return tuple(one.last for one in records)


def _lines(runs: Runs, hit: FoldedRun) -> Iterator[LoggedLine]:
    for line in Logs(runs=runs).printed(hit.seen):
        yield LoggedLine(text=line.text, at=line.at)
