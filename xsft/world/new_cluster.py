"""Create a cluster for a workload by xpk, after an audit of the commands that xpk would run."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.base.reporting import Reporter
from xsft.checks.facts import Facts
from xsft.cluster.places import load_places
from xsft.environments import environments
from xsft.environments.render import dry_run
from xsft.launcher.audit import AuditRow
from xsft.launcher.xpkcluster import ClusterLine, Command, audit_cluster, cluster_line, commands_in
from xsft.planning.api import LoadedWorkload
from xsft.planning.gather import workload_folder
from xsft.spec.resolve import Run, resolve
from xsft.world.cluster_creation import make_cluster
from xsft.world.gcloud import GkeCluster


class ClusterPlan(Struct, frozen=True, kw_only=True):
    """A cluster that xpk would make."""

    line: ClusterLine
    commands: tuple[Command, ...]
    """Commands that xpk would run."""
    audit: tuple[AuditRow, ...]
    python: Path
    """Interpreter of xpk's environment."""


def plan_cluster(workload: LoadedWorkload, *, listener: Reporter) -> ClusterPlan:
    """Return the cluster that the workload needs. Raises SpecError if places.yaml does not have its place, or xpk would
    make another cluster.
    """
    line = cluster_line(_resolve_place(workload))
    with listener.working("place") as progress:
        xpk = environments.ensure("xpk", progress=progress)
        commands = commands_in(dry_run(line.dry_run, python=xpk.python))
    rows = audit_cluster(line, commands)
    _refuse_losses(rows, file=workload.file)
    return ClusterPlan(line=line, commands=commands, audit=rows, python=xpk.python)


def create_cluster(plan: ClusterPlan, *, listener: Reporter) -> GkeCluster:
    """Return the new cluster. Raises as `make_cluster` does."""
    return make_cluster(plan.line, python=plan.python, on_line=listener.say)


def _resolve_place(workload: LoadedWorkload) -> Run:
    """Return the run in its place. Raises SpecError if places.yaml does not have the place."""
    places, file = load_places(workload_folder(workload.file))
    run, problems = resolve(workload.spec, Facts(places=places, places_file=file))
    wrong = tuple(problem.in_file(workload.file) for problem in problems if problem.where == "place")
    if wrong:
        raise SpecError(wrong)
    return run


def _refuse_losses(rows: tuple[AuditRow, ...], *, file: str) -> None:
    """Raise SpecError if the cluster would differ from what the workload needs."""
    lost = [row for row in rows if row.outcome != "landed"]
    if lost:
        differences = "; ".join(f"{row.field}: {row.requested} requested, xpk gives {row.rendered}" for row in lost)
        fix = "Use another TPU type or capacity; the installed xpk does not make this cluster."
        raise SpecError(
            (error("xpk-cluster-differs", "", f"xpk would make another cluster: {differences}.", fix).in_file(file),)
        )
