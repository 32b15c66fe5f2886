"""Creates a GKE cluster for a workload by xpk's command, after an audit of the commands that xpk would run.

xpk changes a cluster that exists: it adds node pools and offers to delete others (xpk@1.16.0 core/nodepool.py). So a
name that is taken is refused before xpk starts, and xpk has no terminal at which it could ask.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import Refused, RunFailed, SpecError, Unknown, Unreachable, UsageError
from xsft.base.lenient import ShowLine
from xsft.base.names import FIX, is_placeholder, placeholder_in
from xsft.base.problems import error
from xsft.base.reporting import Reporter
from xsft.checks.admission import UnreadFact
from xsft.checks.facts import Facts
from xsft.cluster.places import load_places
from xsft.environments import environments
from xsft.environments.render import COMMAND_LINE, dry_run
from xsft.launch.through_xpk import environment, project_number, require_tools, words_of
from xsft.launcher.audit import AuditRow
from xsft.launcher.xpkcluster import ClusterLine, Command, audit_cluster, cluster_line, commands_in
from xsft.machine.paths import scratch_folder
from xsft.machine.process import follow, own_environment
from xsft.machine.signals import when_interrupted
from xsft.planning.api import LoadedWorkload
from xsft.planning.gather import workload_folder
from xsft.spec.resolve import resolve
from xsft.world.discovery import GkeCluster, list_clusters, this_gcloud


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
    places, file = load_places(workload_folder(workload.file))
    run, problems = resolve(workload.spec, Facts(places=places, places_file=file))
    of_place = tuple(problem.in_file(workload.file) for problem in problems if problem.where == "place")
    if of_place:
        raise SpecError(of_place)
    line = cluster_line(run)
    with listener.working("place") as progress:
        xpk = environments.ensure("xpk", progress=progress)
        commands = tuple(commands_in(dry_run(line.dry_run, python=xpk.python)))
    rows = audit_cluster(line, commands)
    differing = [row for row in rows if row.outcome != "landed"]
    if differing:
        differences = "; ".join(
            f"{row.field}: {row.requested} requested, xpk gives {row.rendered}" for row in differing
        )
        message = f"xpk would make another cluster: {differences}."
        fix = "Use another TPU type or capacity; the installed xpk does not make this cluster."
        raise SpecError((error("xpk-cluster-differs", "", message, fix).in_file(workload.file),))
    return ClusterPlan(line=line, commands=commands, audit=rows, python=xpk.python)


def make_cluster(line: ClusterLine, *, python: Path, on_line: ShowLine) -> GkeCluster:
    """Run the line to its end, pass on each line of xpk's output, and return the cluster as Google Cloud lists it.
    `python`: of xpk's environment. The user's kubeconfig stays as it is.

    Raises UsageError for a placeholder, EnvironmentMissing without gcloud or kubectl, Unreachable if gcloud cannot list
    the clusters, Refused if the name is taken, RunFailed if xpk fails, Unknown if the cluster is not listed afterwards.
    """
    if name := placeholder_in(line.place.project, line.place.cluster):
        raise UsageError(is_placeholder(name), fix=FIX, id="place-placeholder")
    require_tools(own_environment(), otherwise="run the printed line on a machine that has them")
    if existing := _find_cluster(line):
        raise Refused(
            f"The project {line.place.project} has a cluster {existing.name} in {existing.location}"
            f" ({existing.status}); xpk"
            " would change its node pools.",
            fix=f"Give place.cluster another name, or run the line yourself: {shlex.join(line.argv)}",
            id="place-taken",
        )
    looking = f"gcloud container clusters list --project={line.place.project}"
    with when_interrupted(
        f"xpk was stopped; operations that it requested may continue. `{looking}` shows what exists."
    ):
        _run_xpk(line, python=python, on_line=on_line, looking=looking)
    if cluster := _find_cluster(line):
        return cluster
    raise Unknown(f"xpk ended without an error, but {line.place.cluster} is not listed.", fix=f"Run {looking}.")


def _run_xpk(line: ClusterLine, *, python: Path, on_line: ShowLine, looking: str) -> None:
    with scratch_folder("place-create") as scratch:
        env = environment(own_environment(), scratch=scratch)
        done = follow(
            (str(python), "-u", *COMMAND_LINE, *line.argv[1:], *project_number(line.place.project, env=env)),
            env=env,
            cwd=scratch,
            on_line=on_line,
        )
    if not done.ok:
        raise RunFailed(
            f"xpk ended with status {done.status}: {words_of(done)}",
            fix=f"Correct what xpk reports. See what exists by {looking}; for a cluster that exists, run the line"
            f" yourself, and xpk adds what is missing: {shlex.join(line.argv)}",
            id="xpk-failed",
        )


def _find_cluster(line: ClusterLine) -> GkeCluster | None:
    """Return the cluster of that name in the line's region, as xpk looks for it; None if there is none."""
    listed = list_clusters(str(line.place.project), gcloud=this_gcloud())
    if isinstance(listed, UnreadFact):
        raise Unreachable(
            f"The clusters of {line.place.project} could not be listed: {listed.why}.", fix="Run gcloud auth login."
        )
    region = "-".join(str(line.place.zone).split("-")[:2])
    same_name = (cluster for cluster in listed if cluster.name == line.place.cluster)
    return next((cluster for cluster in same_name if cluster.location.startswith(region)), None)
