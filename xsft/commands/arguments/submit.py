"""The arguments of `xsft submit`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json, add_settings
from xsft.commands.arguments.wait import add_timing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="workload YAML, or - for stdin")
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan only, as xsft plan does")
    parser.add_argument(
        "--through-xpk",
        action="store_true",
        help="run the xpk line itself (gcloud, kubectl); refused if it would lose a setting",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before slices of a cluster are used")
    parser.add_argument(
        "--wait", action="store_true", help="wait for the run's end; its exit status is that of xsft wait"
    )
    parser.add_argument("--follow", action="store_true", help="like --wait, and show the log meanwhile")
    add_timing(parser)
