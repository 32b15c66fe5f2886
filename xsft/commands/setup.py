"""`xsft setup`: build, verify and repair the environments of xpk and MaxText."""

from __future__ import annotations

import argparse

from xsft.commands.documents import print_json
from xsft.commands.progress import shown
from xsft.effects.environments import environments
from xsft.effects.environments.installed import Environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = " or ".join(environments.NAMES)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{names}; both when none is named")
    parser.add_argument("--verify", action="store_true", help="check every file and import, and rebuild what fails")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    bring = environments.repair if args.verify else environments.ensure
    with shown("setting up") as progress:
        ready = [bring(name, progress=progress) for name in args.names or environments.NAMES]
    if args.json:
        print_json("setup", {"environments": [_row(found) for found in ready]})
        return 0
    for environment in ready:
        print(f"{environment.name} {environment.version}: {environment.folder}")
    return 0


def _row(environment: Environment) -> dict[str, str]:
    return {
        "name": environment.name,
        "version": environment.version,
        "digest": environment.digest,
        "python": str(environment.python),
    }
