"""The arguments of `xsft receipt`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json
from xsft.commands.arguments.runs import add_run, add_where

EPILOG = (
    "Exit status 0 with a receipt, also of a run that is not over; 8 if nothing is left that tells; 5 if its cluster "
    "does not answer."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_run(parser)
    add_where(parser)
    add_json(parser)
