"""The arguments of `xsft cancel`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json
from xsft.commands.arguments.runs import add_run, add_where

EPILOG = (
    "Deletes only the JobSet with the UID that it shows, never another of the same name; checkpoints, records and "
    "outputs stay, and submitting the workload again resumes from the last checkpoint. Asks first, unless --yes; "
    "without a terminal, exit status 4. If the run has ended: nothing to cancel, exit status 0."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_run(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_where(parser)
    add_json(parser)
