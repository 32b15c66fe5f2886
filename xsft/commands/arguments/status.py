"""The arguments of `xsft status`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json
from xsft.commands.arguments.runs import a_run, add_where
from xsft.commands.durations import duration
from xsft.states.names import WORDS

EPILOG = (
    "Without RUN: active runs and those that ended in the last day. If a cluster does not answer, the last known "
    "state of its runs is shown with its age. Exit status 0 whatever the state of the runs, 5 if nothing could be "
    "read, 2 if a RUN was not found (the others are shown)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "runs", nargs="*", type=a_run, metavar="RUN", help="exact run names (default: all active or recent runs)"
    )
    parser.add_argument("--all", action="store_true", help="show also runs that ended more than a day ago")
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        choices=WORDS,
        metavar="STATE",
        help=f"show only these states (repeatable): {', '.join(WORDS)}",
    )
    parser.add_argument("--mode", choices=("mcjax", "pathways"), help="show only this mode")
    parser.add_argument("--watch", action="store_true", help="refresh in place until Ctrl-C")
    parser.add_argument("--every", type=duration, metavar="TIME", help="interval of --watch (default: 5s)")
    add_where(parser)
    add_json(parser)
