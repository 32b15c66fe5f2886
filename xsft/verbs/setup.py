"""`xsft setup`: build, verify and repair the environments of xpk, MaxText, the engine and the TPU compiler."""

from __future__ import annotations

import argparse

from xsft.environments import environments
from xsft.environments.installed import BuiltEnvironment
from xsft.verbs.plan_document import print_json
from xsft.verbs.progress import show_progress


def run(args: argparse.Namespace) -> int:
    bring = environments.repair if args.verify else environments.ensure
    with show_progress("setting up") as progress:
        ready = [bring(name, progress=progress) for name in args.names or environments.USUAL]
    if args.json:
        print_json("setup", {"environments": [_environment_row(found) for found in ready]})
        return 0
    for environment in ready:
        print(f"{environment.name} {environment.version}: {environment.folder}")
    return 0


def _environment_row(environment: BuiltEnvironment) -> dict[str, str]:
    return {
        "name": environment.name,
        "version": environment.version,
        "digest": environment.digest,
        "python": str(environment.python),
    }
