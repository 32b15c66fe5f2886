"""`xsft place create FILE`: print the xpk command that creates a cluster for a workload, and the commands that xpk
would run; with `--yes`, run it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator

from msgspec.structs import asdict

from xsft.base.errors import UsageError
from xsft.launcher.xpkcluster import ClusterLine
from xsft.planning import api
from xsft.verbs.plan_document import print_json, print_lines
from xsft.verbs.terminal import terminal
from xsft.world.gcloud import GkeCluster
from xsft.world.new_cluster import ClusterPlan, create_cluster, plan_cluster


def run(args: argparse.Namespace) -> int:
    if args.name is None:
        raise UsageError("place create needs a workload.", fix="xsft place create FILE")
    workload = api.load(args.name, settings=args.settings)
    plan = plan_cluster(workload, listener=terminal())
    if not args.json:
        print_lines(_creation_lines(plan))
    made = create_cluster(plan, listener=terminal()) if args.yes else None
    if args.json:
        line = plan.line
        body = {"xpk_argv": line.argv, "dry_run": line.dry_run, "commands": plan.commands, "created": made is not None}
        print_json("place-create", {"file": workload.file, **body, "audit": [asdict(row) for row in plan.audit]})
    elif made:
        sys.stdout.write(f"{_made_line(made, plan.line)}\n")
    return 0


def _made_line(made: GkeCluster, line: ClusterLine) -> str:
    slices = ", ".join(f"{count} x {name}" for name, count in made.slices.items()) or "no TPU slices"
    adding = shlex.join(("xsft", "place", "add", *line.argv[3:6]))
    return f"{made.name}: {made.status}, {slices}. To use it: {adding}"


def _creation_lines(plan: ClusterPlan) -> Iterator[str]:
    line, commands, count = plan.line, plan.commands, len(plan.audit)
    yield shlex.join(line.argv)
    yield ""
    yield f"# {count} values audited in the dry run of xpk; it would execute {len(commands)} commands, among them:"
    yield from (f"# {shlex.join(one)}" for one in commands if one[:1] == ("gcloud",) and "create" in one)
    if line.dry_run[:-1] != line.argv:
        yield "# xpk's dry run shows one slice of a reservation; the line above makes all of them."
