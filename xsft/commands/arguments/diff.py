"""The arguments of `xsft diff`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json, add_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="workload YAML")
    parser.add_argument(
        "b", metavar="B", help="workload YAML; the same file again together with --set compares against it as written"
    )
    add_settings(parser)
    add_json(parser)
