"""`xsft place create FILE`: print the xpk command that creates a cluster for a workload, and the commands that xpk
would run; with `--yes`, run it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator

from msgspec.structs import asdict

from xsft import api
from xsft.effects.environments import environments
from xsft.effects.environments.render import dry_run
from xsft.effects.facts.gather import workload_folder
from xsft.effects.inputs.places import load_places
from xsft.effects.places.cluster_creation import make_cluster
from xsft.errors import SpecError, UsageError
from xsft.facts import Facts
from xsft.launchers.audit import AuditRow
from xsft.launchers.xpkcluster import ClusterLine, Command, audit_cluster, cluster_line, commands_in
from xsft.problems import error
from xsft.reading.gcloud import GkeCluster
from xsft.screen.documents import print_json
from xsft.screen.progress import print_to_stderr, shown
from xsft.spec.resolve import Run, resolve


def run(args: argparse.Namespace) -> int:
    if args.name is None:
        raise UsageError("place create needs a workload.", fix="xsft place create FILE")
    workload = api.load(args.name, settings=args.settings)
    line = cluster_line(_resolve_place(workload))
    with shown("place") as progress:
        xpk = environments.ensure("xpk", progress=progress)
        commands = commands_in(dry_run(line.dry_run, python=xpk.python))
    rows = audit_cluster(line, commands)
    _refuse_losses(rows, file=workload.file)
    if not args.json:
        sys.stdout.writelines(f"{text}\n" for text in _creation_lines(line, commands, rows))
        sys.stdout.flush()
    made = make_cluster(line, python=xpk.python, on_line=print_to_stderr) if args.yes else None
    if args.json:
        body = {"xpk_argv": line.argv, "dry_run": line.dry_run, "commands": commands, "created": made is not None}
        print_json("place-create", {"file": workload.file, **body, "audit": [asdict(row) for row in rows]})
    elif made:
        sys.stdout.write(f"{_made(made, line)}\n")
    return 0


def _resolve_place(workload: api.Loaded) -> Run:
    """Return the run in its place. Raises SpecError if places.yaml does not have the place."""
    places, file = load_places(workload_folder(workload.file))
    run, problems = resolve(workload.spec, Facts(places=places, places_file=file))
    wrong = tuple(problem.in_file(workload.file) for problem in problems if problem.where == "place")
    if wrong:
        raise SpecError(wrong)
    return run


def _made(made: GkeCluster, line: ClusterLine) -> str:
    slices = ", ".join(f"{count} x {name}" for name, count in made.slices.items()) or "no TPU slices"
    adding = shlex.join(("xsft", "place", "add", *line.argv[3:6]))
    return f"{made.name}: {made.status}, {slices}. To use it: {adding}"


def _refuse_losses(rows: tuple[AuditRow, ...], *, file: str) -> None:
    """Raise SpecError if the cluster would differ from what the workload needs."""
    lost = [row for row in rows if row.outcome != "landed"]
    if lost:
        differences = "; ".join(f"{row.field}: {row.requested} requested, xpk gives {row.rendered}" for row in lost)
        fix = "Use another TPU type or capacity; the installed xpk does not make this cluster."
        raise SpecError(
            (error("xpk-cluster-differs", "", f"xpk would make another cluster: {differences}.", fix).in_file(file),)
        )


def _creation_lines(line: ClusterLine, commands: tuple[Command, ...], rows: tuple[AuditRow, ...]) -> Iterator[str]:
    yield shlex.join(line.argv)
    yield ""
    yield f"# {len(rows)} values audited in the dry run of xpk; it would execute {len(commands)} commands, among them:"
    yield from (f"# {shlex.join(one)}" for one in commands if one[:1] == ("gcloud",) and "create" in one)
    if line.dry_run[:-1] != line.argv:
        yield "# xpk's dry run shows one slice of a reservation; the line above makes all of them."
