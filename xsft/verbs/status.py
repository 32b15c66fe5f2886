"""`xsft status [RUN…]`: print one row per run, each with its sources and their age."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TextIO

from msgspec.structs import replace

from xsft.base.errors import UsageError
from xsft.cluster.sources import PlaceQuery
from xsft.machine.clock import pause
from xsft.runs.lookup import FoldedRun, RowFilter, chosen
from xsft.runs.read_all import RunAccess, StatusRead, forget_runs, read_status, runs_for
from xsft.runs.rows import Row
from xsft.spec.keypath import printable
from xsft.verbs.document import (
    PrintedDocument,
    ProblemFields,
    document_of,
    print_problems,
    print_to_stderr,
    problem_documents,
    report_document,
    request_of,
    show_spinner,
)
from xsft.verbs.status_table import RunCard, one_line_each, plain_lines

ReadCard = Callable[[FoldedRun], tuple[RunCard, tuple[str, ...]]]
"""Return the card of a run, and its text: `verbs.card` reads it, only for a named run."""


class StatusDocument(PrintedDocument, RunCard, frozen=True, kw_only=True, tag_field="schema", tag="xsft.status/1"):
    """`xsft status [RUN…] --json`. Its problems are those of reading, for example a cluster that does not answer."""

    runs: tuple[Row, ...]
    """Active ones first, then the newest first."""
    problems: tuple[ProblemFields, ...] = ()
    exit_status: int = 0


def run(args: argparse.Namespace) -> int:
    if args.receipt:
        return _print_receipt(args)
    if args.json and args.watch:
        raise UsageError("--watch and --json: --json prints one document and ends.", fix="Use one of them.")
    if args.every is not None and not args.watch:
        raise UsageError("--every needs --watch.", fix="Add --watch, or omit --every.")
    row_filter = request_of(args, RowFilter)
    if args.forget:
        return _forget(row_filter.runs, json=args.json)
    runs = runs_for(request_of(args, PlaceQuery), names=row_filter.runs, everything=row_filter.everything)
    if args.watch:
        from xsft.verbs.status_screen import EVERY_S, watch

        return watch(runs, row_filter, every_s=args.every or EVERY_S, pause=pause)
    if len(row_filter.runs) != 1:
        return report_status(runs, row_filter, json=args.json, stdout=sys.stdout)
    from xsft.verbs.card import read_card

    return report_status(runs, row_filter, json=args.json, stdout=sys.stdout, read=partial(read_card, runs))


def _print_receipt(args: argparse.Namespace) -> int:
    if len(args.runs) != 1:
        raise UsageError("--receipt is of one run.", fix="Name one: xsft status RUN --receipt")
    from xsft.runs.run_receipts import read_receipt
    from xsft.verbs.card import print_receipt

    runs = runs_for(request_of(args, PlaceQuery), names=args.runs, everything=True)
    return print_receipt(args.runs[0], runs=runs, read=partial(read_receipt, runs), json=args.json)


def _forget(names: Sequence[str], *, json: bool) -> int:
    if json or not names:
        raise UsageError("--forget needs the names of runs, and prints no document.", fix="xsft status --forget RUN")
    forget_runs(names)
    for name in names:
        print_to_stderr(f"{printable(name)} is forgotten on this machine; the run and its output are not touched.")
    return 0


def report_status(
    runs: RunAccess, row_filter: RowFilter, *, json: bool, stdout: TextIO, read: ReadCard | None = None
) -> int:
    """Read the runs once and print them; return 0, or the exit status for a name that no run has, if others were found.
    `read`: reads the card of the only run that was named; None: there is no card.

    Raises Unreachable if nothing could be read, UsageError if none of the named runs exists.
    """
    with show_spinner("status", "asking the clusters") as say:
        runs.listen(say)
        status = read_status(runs, row_filter)
        if status.missing and not status.rows:
            raise status.missing
        hits = [run for run in status.found.rows if run.row in status.rows]
        card = RunCard()
        lines: tuple[str, ...] = ()
        if read and len(hits) == 1:
            card, lines = read(hits[0])
    unknown = status.missing.problems if status.missing else ()
    exit_status = status.missing.exit_status if status.missing else 0
    problems = problem_documents((*status.problems, *unknown))
    document = document_of(StatusDocument, card, runs=status.rows, problems=problems, exit_status=exit_status)

    def show(_document: StatusDocument) -> None:
        print_problems(status.problems)
        if lines:
            stdout.writelines(f"{line}\n" for line in lines)
        else:
            _show_table(status.rows if row_filter.runs else one_line_each(status.rows), stdout)
        for line in _hints(row_filter, status):
            print_to_stderr(line)

    report_document(document, show, as_json=json, shown=True)
    print_problems(unknown)  # under --json, too: nearest to the prompt
    return exit_status


def _show_table(rows: Sequence[Row], stdout: TextIO) -> None:
    """Print a table with colour on a terminal, plain aligned text elsewhere; nothing without runs."""
    if rows and stdout.isatty():
        from xsft.verbs.status_screen import draw

        draw(rows, stdout)
    elif rows:
        stdout.writelines([f"{line}\n" for line in plain_lines(rows)])


def _hints(row_filter: RowFilter, status: StatusRead) -> Iterator[str]:
    """Yield the number of hidden runs, and the folder of TensorBoard files of each of several named runs."""
    shown = len(status.rows)
    by_state_or_mode = bool(row_filter.states or row_filter.mode)
    matching = len(chosen(status.found.rows, replace(row_filter, everything=True)))
    if matching > shown:
        command = "the same with" if by_state_or_mode else "xsft status"
        yield f"{matching - shown} more ended over a day ago: {command} --all"
    if by_state_or_mode and not row_filter.runs and len(status.found.rows) > matching:
        yield f"{len(status.found.rows) - matching} more do not match --state or --mode"
    elif not matching:
        yield "no runs"
    for row in status.rows:
        if len(row_filter.runs) > 1 and row.tensorboard:
            yield f"tensorboard  {printable(row.tensorboard)}"
