"""The arguments of `xsft setup`."""

from __future__ import annotations

import argparse

from xsft.effects.environments import environments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names, usual = ", ".join(environments.NAMES), " and ".join(environments.USUAL)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{names}; {usual} if none is named")
    parser.add_argument("--verify", action="store_true", help="check every file and import, and rebuild what fails")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
