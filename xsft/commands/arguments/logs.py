"""The arguments of `xsft logs`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments.runs import a_count, add_attempt, add_run, add_where
from xsft.commands.durations import duration
from xsft.commands.log_request import STREAMS

EPILOG = (
    "Without --slice, --host or --all: the one process that prints steps, which is host 0 of slice 0, or the head "
    f"under Pathways. --all shows the number of logs and opens more than {STREAMS} only with --streams. Lines of "
    "several processes are merged by time, each with its slice and host. -f continues through restarts until the "
    "run ends; restarts, waiting and the end of the run are reported on stderr. Exit status 0 whatever the "
    "result; `xsft wait` returns it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="follow the log until the run ends, or Ctrl-C")
    parser.add_argument("--slice", type=a_count, metavar="N", help="show this slice, numbered from 0")
    parser.add_argument(
        "--host", type=a_count, metavar="N", help="show this host of the slice, numbered from 0 (default: 0)"
    )
    parser.add_argument("--all", action="store_true", help="show all processes, or all hosts of --slice")
    parser.add_argument(
        "--streams", type=a_count, default=STREAMS, metavar="N", help="maximum number of logs at once (default: 8)"
    )
    parser.add_argument("--since", type=duration, metavar="TIME", help="show only newer lines, e.g. 10m")
    parser.add_argument("--tail", type=a_count, metavar="N", help="show only the last N lines of each process")
    add_attempt(parser)
    parser.add_argument("--timestamps", action="store_true", help="show the time of each line")
    parser.add_argument(
        "--raw", action="store_true", help="keep control characters and colours, which may act on the terminal"
    )
    add_where(parser)
