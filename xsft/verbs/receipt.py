"""`xsft receipt RUN`: print what a run's chips did, and what they trained."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from xsft.base.errors import Unknown
from xsft.records.record import Receipt
from xsft.runs.folding import FoldedRun
from xsft.runs.lookup import one_run
from xsft.runs.read_all import runs_of
from xsft.runs.rows import Row
from xsft.runs.run_access import RunAccess
from xsft.runs.run_receipts import read_receipt
from xsft.verbs.plan_document import print_json, print_lines
from xsft.verbs.progress import show_spinner
from xsft.verbs.receipt_text import RunReceipt, receipt_document, receipt_text

ReadReceipt = Callable[[FoldedRun], Receipt | None]
"""Return the run's receipt; None if it has no JobSet, and no receipt in its records. Raises XsftError if its log cannot
be read."""


def run(args: argparse.Namespace) -> int:
    runs = runs_of((args.run,), place=args.place, context=args.context, namespace=args.namespace)
    return print_receipt(args.run, runs=runs, read=partial(read_receipt, runs), json=args.json)


def print_receipt(name: str, *, runs: RunAccess, read: ReadReceipt, json: bool) -> int:
    """Print the receipt and return 0. Raises UsageError for a name that no run has, Unknown if there is no receipt."""
    with show_spinner("receipt", "asking the clusters") as say:
        runs.listen(say)
        hit = one_run(name, runs.look())
        receipt = read(hit)
    if receipt is None:
        raise _no_receipt(hit.row)
    run_receipt = RunReceipt(row=hit.row, receipt=receipt)
    if json:
        print_json("receipt", {**receipt_document(run_receipt), "problems": [], "exit_status": 0})
    else:
        print_lines(receipt_text(run_receipt))
    return 0


def _no_receipt(row: Row) -> Unknown:
    if row.on_this_machine and not row.ended:
        return Unknown(
            f"{row.run_name} is still running, and its receipt is written at its end.", fix="Run this command then."
        )
    if row.on_this_machine:
        return Unknown(
            f"{row.run_name} ended before its receipt was written; how its time was spent is unknown.",
            fix=f"Its trainer's output shows the time of each step: xsft logs {row.run_name}",
        )
    return Unknown(
        f"The JobSet of {row.run_name} is gone with its log, and no record has its receipt; how its time was spent is "
        "unknown.",
        fix="Run this command before the JobSet is deleted (a day after its end, unless the workload sets another "
        "time).",
    )
