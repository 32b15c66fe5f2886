"""`xsft status [RUN…]`: one row per run, each with what it was told from and how old that is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import replace

from xsft.commands.arguments import add_json
from xsft.commands.durations import duration
from xsft.commands.run_arguments import a_run, add_where
from xsft.run_query import RunQuery, look, there

if TYPE_CHECKING:
    from xsft.problems import Problem
    from xsft.states.folding import Seen, Wanted
    from xsft.states.rows import Row

STATES = (
    *("queued", "starting", "compiling", "training", "saving", "succeeded", "failed", "cancelled", "evicted"),
    *("stalled", "unknown", "running", "active", "ended"),
)
"""`states.filters.WORDS`, which `--help` need not import; a test holds them together."""

EPILOG = (
    "Without RUN: active runs and those that ended in the last day. A cluster that does not answer makes no run failed:"
    " its last known state is shown with its age. Exit status 0 whatever the runs do, 5 where nothing could be read,"
    " 2 where a RUN is not there (those that are there are shown)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "runs", nargs="*", type=a_run, metavar="RUN", help="exact run names; default: all that are active or recent"
    )
    parser.add_argument("--all", action="store_true", help="also runs that ended more than a day ago")
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        choices=STATES,
        metavar="STATE",
        help=f"only these states (repeatable): {', '.join(STATES)}",
    )
    parser.add_argument("--mode", choices=("mcjax", "pathways"), help="only this mode")
    parser.add_argument("--watch", action="store_true", help="again and again, in place; Ctrl-C ends it")
    parser.add_argument("--every", type=duration, metavar="TIME", help="with --watch: how often (default: 5s)")
    add_where(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from xsft.commands.run_sources import runs_of
    from xsft.effects.machine.clock import pause
    from xsft.errors import UsageError
    from xsft.run_query import query_of

    if args.json and args.watch:
        raise UsageError(
            "--watch and --json: one document cannot be live.", fix="Ask again with --json when you need it."
        )
    if args.every is not None and not args.watch:
        raise UsageError("--every is for --watch.", fix="Leave it out, or add --watch.")
    query = replace(query_of(runs_of(args, *args.runs, everything=args.all)), wanted=wanted_of(args))
    if args.watch:
        from xsft.commands.status_watch import EVERY_S, watch

        return watch(query, every_s=args.every or EVERY_S, pause=pause)
    return report(query, json=args.json, stdout=sys.stdout)


def wanted_of(args: argparse.Namespace) -> Wanted:
    from xsft.states.folding import Wanted

    return Wanted(runs=tuple(args.runs), states=tuple(args.state), mode=args.mode, everything=args.all)


def report(query: RunQuery, *, json: bool, stdout: TextIO) -> int:
    """Read once and show; 0, or the exit status of a name that no run has, beside runs that are there.

    Raises Unreachable where nothing could be read, UsageError where none of the runs is there.
    """
    from xsft.commands.failure import print_problems
    from xsft.commands.progress import spinning
    from xsft.states.lookup import lacking
    from xsft.states.worth import zero_loss

    with spinning("status", "asking the clusters") as say:
        query.listen(say)
        found, rows = look(query)
    failed, picked = lacking(query.wanted.runs, rows, found), there(query, rows)
    if failed is not None and not picked:
        raise failed
    unknown = failed.problems if failed else ()
    warnings = (*found.problems, *(one for row in picked for one in zero_loss(row)))
    print_problems(() if json else warnings)
    if json:
        _print_document(picked, (*warnings, *unknown))
    else:
        show(picked, stdout)
        _say_hidden(query.wanted, rows, shown=len(picked))
    print_problems(unknown)
    return failed.exit_status if failed else 0


def show(rows: Sequence[Row], stdout: TextIO) -> None:
    """A table with colour on a terminal, plain aligned text elsewhere; nothing for no runs."""
    from xsft.commands.status_table import plain_lines, table

    if not rows:
        return
    if not stdout.isatty():
        stdout.writelines(f"{line}\n" for line in plain_lines(rows))
        return
    from xsft.commands.console import console

    drawn = console(stdout)
    drawn.print(table(rows, width=drawn.width))


def _say_hidden(wanted: Wanted, rows: Sequence[Seen], *, shown: int) -> None:
    """On stderr, and only where something is not shown."""
    from xsft.states.folding import chosen

    hints: list[str] = []
    filtered = bool(wanted.states or wanted.mode)
    of_these = len(chosen(rows, replace(wanted, everything=True)))
    if of_these > shown:
        hints.append(
            f"{of_these - shown} more ended over a day ago: {'the same with' if filtered else 'xsft status'} --all"
        )
    if filtered and not wanted.runs and len(rows) > of_these:
        hints.append(f"{len(rows) - of_these} more are not of the states and mode asked for")
    if not shown and not hints:
        hints.append("no runs")
    sys.stderr.writelines(f"{hint}\n" for hint in hints)


def _print_document(rows: Sequence[Row], problems: Sequence[Problem]) -> None:
    from xsft.commands.documents import print_json
    from xsft.commands.failure import problem_documents
    from xsft.commands.run_documents import run_document

    print_json("status", {"runs": [run_document(row) for row in rows], "problems": problem_documents(problems)})
