"""The arguments of `xsft check`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_files, add_json, add_offline, add_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--notes", action="store_true", help="print the notes too, not only errors and warnings")
    add_offline(parser)
    parser.add_argument(
        "--deep", action="store_true", help="pass the arguments to the installed MaxText's own parser too (about 5 s)"
    )
