"""The arguments of `xsft run`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json, add_settings
from xsft.commands.arguments.wait import add_timing
from xsft.stages.stage import STAGES

EPILOG = (
    "Stages: convert (of model.hf), train, and those that the workload names under `stages`: evaluate, export, serve."
    " Each is a run of its own, NAME-<stage>, and is done once: called again, the command finds what is done and"
    " continues. On a cluster Ctrl-C and --timeout end only the watching. On this machine they stop the stage, and"
    " serve is not started: its command is printed. Exit status: 0 done, or waiting with --no-wait · 6 a stage failed,"
    " or the evaluation's verdict is failed · 7 timed out."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("file", metavar="FILE", help="workload YAML, or - for stdin")
    add_settings(parser)
    parser.add_argument(
        "--from", dest="first", choices=STAGES, default=STAGES[0], help="begin with this stage (default: the first)"
    )
    parser.add_argument(
        "--to", dest="last", choices=STAGES, default=STAGES[-1], help="end with this stage (default: the last)"
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="on a cluster: start what can start, and end without waiting"
    )
    add_timing(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask before nodes of a cluster are used")
    add_json(parser)
