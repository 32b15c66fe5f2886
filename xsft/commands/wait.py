"""`xsft wait RUN`: until it is done, runs, or has come to a step. What came of it is the exit status."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from xsft.commands.arguments import add_json
from xsft.commands.durations import duration
from xsft.commands.run_arguments import add_run, add_where, where_text

if TYPE_CHECKING:
    from xsft.states.waiting import Goal

EPILOG = (
    "Exit status: 0 it came there · 6 it failed, was cancelled or ended short of it · 7 the time is up · 8 the run is"
    " gone and nothing says how it ended · 5 nothing answered the whole time, or at once what waiting cannot mend (an"
    " expired login). A cluster that is silent for a while is waited for: it says nothing about the run."
)
POLL_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_run(parser)
    parser.add_argument(
        "--for", dest="goal", type=_goal, default="done", metavar="WHAT", help="done (default), running, or step=N"
    )
    add_timing(parser)
    add_where(parser)
    add_json(parser)


def add_timing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", type=duration, metavar="TIME", help="give up after, e.g. 90s, 10m, 2h, 1d")
    parser.add_argument(
        "--poll", type=duration, default=POLL_S, metavar="TIME", help="how often to look (default: 10s)"
    )


def run(args: argparse.Namespace) -> int:
    from xsft.commands.changes import changes_of
    from xsft.commands.run_sources import runs_of
    from xsft.commands.waiting import Patience, Waited, in_time, report, wait_and_report
    from xsft.effects.machine import clock
    from xsft.effects.submit.interrupts import goes_on, when_interrupted

    patience = Patience(timeout_s=args.timeout, poll_s=args.poll, began_at=clock.monotonic())
    with when_interrupted(goes_on(args.run, where=where_text(args))):
        runs = in_time(partial(runs_of, args, args.run), args.timeout)  # connects where a place or context is named
        if runs is None:
            never = Waited(outcome="unreachable", row=None, seconds=args.timeout)
            return report(args.run, goal=args.goal, waited=never, json=args.json)
        query, here = changes_of(runs)
        return wait_and_report(
            args.run,
            goal=args.goal,
            query=query,
            patience=patience,
            clock=here,
            json=args.json,
            record=runs.record_worthless,
        )


def _goal(text: str) -> Goal:
    from xsft.states.waiting import parse_goal

    try:
        return parse_goal(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None
