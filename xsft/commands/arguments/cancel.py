"""The arguments of `xsft cancel`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json
from xsft.commands.arguments.runs import add_run, add_where

EPILOG = (
    "Only the JobSet with the UID that was read is deleted, never another of the same name; checkpoints, records and"
    " outputs stay, and submitting the workload again resumes from the last checkpoint. Asks first, unless --yes;"
    " without a terminal to ask at, exit status 4. A run that has ended: nothing to cancel, exit status 0."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_run(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_where(parser)
    add_json(parser)
