"""The arguments of `xsft wait`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json
from xsft.commands.arguments.runs import add_run, add_where
from xsft.commands.durations import duration
from xsft.states.waiting import Goal, parse_goal

EPILOG = (
    "Exit status: 0 reached · 6 failed, cancelled or ended short of it · 7 timed out · 8 the run is"
    " gone and its result is unknown · 5 no cluster answered the whole time, or a failure that waiting cannot solve (an"
    " expired login), immediately. wait keeps waiting for a cluster that does not answer."
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
    parser.add_argument(
        "--timeout", type=duration, metavar="TIME", help="give up after this time, e.g. 90s, 10m, 2h, 1d"
    )
    parser.add_argument(
        "--poll", type=duration, default=POLL_S, metavar="TIME", help="interval between reads (default: 10s)"
    )


def _goal(text: str) -> Goal:
    try:
        return parse_goal(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None
