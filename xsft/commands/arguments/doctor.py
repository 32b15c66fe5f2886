"""The arguments of `xsft doctor`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--place",
        type=a_name,
        metavar="NAME",
        help="check this place of places.yaml alone: its login, its bucket, and what each mode still needs there, with"
        " the command that provides it; exit status 3 if no mode can run",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
