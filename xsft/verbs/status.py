"""`xsft status [RUN…]`: print one row per run, each with its sources and their age."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TextIO

from msgspec.structs import replace

from xsft.base.errors import UsageError
from xsft.base.problems import Problem
from xsft.machine.clock import pause
from xsft.runs.folding import FoldedRun, RowFilter, chosen
from xsft.runs.read_all import runs_of
from xsft.runs.rows import Row
from xsft.runs.run_access import RunAccess, read_status
from xsft.spec.keypath import printable
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.plan_document import print_json, run_document
from xsft.verbs.progress import show_spinner
from xsft.verbs.status_table import one_line_each, plain_lines


def run(args: argparse.Namespace) -> int:
    if args.json and args.watch:
        raise UsageError("--watch and --json: --json prints one document and ends.", fix="Use one of them.")
    if args.every is not None and not args.watch:
        raise UsageError("--every needs --watch.", fix="Add --watch, or omit --every.")
    runs = runs_of(args.runs, place=args.place, context=args.context, namespace=args.namespace, everything=args.all)
    wanted = row_filter(args)
    if args.watch:
        from xsft.verbs.status_watch import EVERY_S, watch

        return watch(runs, wanted, every_s=args.every or EVERY_S, pause=pause)
    return report_status(runs, wanted, json=args.json, stdout=sys.stdout)


def row_filter(args: argparse.Namespace) -> RowFilter:
    return RowFilter(runs=tuple(args.runs), states=tuple(args.state), mode=args.mode, everything=args.all)


def report_status(runs: RunAccess, wanted: RowFilter, *, json: bool, stdout: TextIO) -> int:
    """Read the runs once and print them; return 0, or the exit status for a name that no run has, if others were found.

    Raises Unreachable if nothing could be read, UsageError if none of the named runs exists.
    """
    with show_spinner("status", "asking the clusters") as say:
        runs.listen(say)
        status = read_status(runs, wanted)
    if status.missing and not status.rows:
        raise status.missing
    unknown = status.missing.problems if status.missing else ()
    if json:
        _print_rows(status.rows, (*status.problems, *unknown))
    else:
        print_problems(status.problems)
        show(status.rows, stdout)
        _say_hidden(wanted, status.found.rows, shown=len(status.rows))
        _say_folders(wanted, status.rows)
    print_problems(unknown)
    return status.missing.exit_status if status.missing else 0


def show(found: Sequence[Row], stdout: TextIO) -> None:
    """Print a table with colour on a terminal, plain aligned text elsewhere; nothing without runs. The stages of a
    pipeline are one line."""
    rows = one_line_each(found)
    if not rows:
        return
    if not stdout.isatty():
        stdout.writelines([f"{line}\n" for line in plain_lines(rows)])
        return
    from xsft.verbs.status_screen import draw

    draw(rows, stdout)


def _say_folders(wanted: RowFilter, rows: Sequence[Row]) -> None:
    """Print the folder of TensorBoard files of each named run to stderr."""
    folders = [row.tensorboard for row in rows if row.tensorboard] if wanted.runs else []
    sys.stderr.writelines([f"tensorboard  {printable(folder)}\n" for folder in folders])


def _say_hidden(wanted: RowFilter, rows: Sequence[FoldedRun], *, shown: int) -> None:
    """Print the number of hidden runs to stderr, if any."""
    hints: list[str] = []
    filtered = bool(wanted.states or wanted.mode)
    of_these = len(chosen(rows, replace(wanted, everything=True)))
    if of_these > shown:
        hints.append(
            f"{of_these - shown} more ended over a day ago: {'the same with' if filtered else 'xsft status'} --all"
        )
    if filtered and not wanted.runs and len(rows) > of_these:
        hints.append(f"{len(rows) - of_these} more do not match --state or --mode")
    if not shown and not hints:
        hints.append("no runs")
    sys.stderr.writelines([f"{hint}\n" for hint in hints])


def _print_rows(rows: Sequence[Row], problems: Sequence[Problem]) -> None:
    print_json("status", {"runs": [run_document(row) for row in rows], "problems": problem_documents(problems)})
