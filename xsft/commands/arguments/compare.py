"""The arguments of `xsft compare`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json
from xsft.commands.arguments.runs import a_run, add_where

EPILOG = (
    "The losses come from the record of a local run, else from the metrics beside the run's output and the log of "
    "the process that prints steps; the output names the source and the number of points for each run, and how "
    "its workload differs from the first one's. Exit status 8 if no run has a loss."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("runs", nargs="+", type=a_run, metavar="RUN", help="exact run names")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a picture too, .png or .svg; no file is overwritten"
    )
    add_where(parser)
    add_json(parser)
