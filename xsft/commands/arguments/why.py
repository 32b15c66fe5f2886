"""The arguments of `xsft why`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json
from xsft.commands.arguments.runs import add_attempt, add_run, add_where

EPILOG = (
    "Exit status 0 if it could explain the state, whatever it is; 8 if nothing certain is known about the run; 5 "
    "if its cluster does not answer."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_run(parser)
    add_attempt(parser)
    add_where(parser)
    add_json(parser)
