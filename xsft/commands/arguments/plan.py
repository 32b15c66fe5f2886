"""The arguments of `xsft plan`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_files, add_json, add_offline, add_settings

EPILOG = "Exit status 0, or 2 if a check refuses the workload. The line under `xpk` can be copied into a shell."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    add_offline(parser)
    parser.add_argument(
        "--audit", action="store_true", help="show where each field is in the manifest, not only the counts"
    )
    parser.add_argument("--manifest", action="store_true", help="print the objects that will be created, as YAML")
