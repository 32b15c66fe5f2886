"""Creates a GKE cluster by the xpk command that `xsft place create` audited, in xpk's pinned environment.

xpk changes a cluster that exists: it adds node pools and offers to delete others (xpk@1.16.0 core/nodepool.py). So a
name that is taken is refused before xpk starts, and xpk has no terminal at which it could ask.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from xsft.base.aliases import ShowLine
from xsft.base.errors import Refused, RunFailed, Unknown, Unreachable, UsageError
from xsft.base.placeholders import FIX, is_placeholder, placeholder_in
from xsft.checks.admission import UnreadFact
from xsft.environments.render import COMMAND_LINE
from xsft.launch.through_xpk import environment, project_number, require_tools, words_of
from xsft.launcher.xpkcluster import ClusterLine
from xsft.machine.interrupts import when_interrupted
from xsft.machine.process import follow, own_environment
from xsft.machine.scratch import scratch_folder
from xsft.world.discovery import list_clusters, this_gcloud
from xsft.world.gcloud import GkeCluster


def make_cluster(line: ClusterLine, *, python: Path, on_line: ShowLine) -> GkeCluster:
    """Run the line to its end, pass on each line of xpk's output, and return the cluster as Google Cloud lists it.
    `python`: of xpk's environment. The user's kubeconfig stays as it is.

    Raises UsageError for a placeholder, EnvironmentMissing without gcloud or kubectl, Unreachable if gcloud cannot list
    the clusters, Refused if the name is taken, RunFailed if xpk fails, Unknown if the cluster is not listed afterwards.
    """
    if name := placeholder_in(line.place.project, line.place.cluster):
        raise UsageError(is_placeholder(name), fix=FIX, id="place-placeholder")
    require_tools(own_environment(), otherwise="run the printed line on a machine that has them")
    if taken := _find_cluster(line):
        raise Refused(
            f"The project {line.place.project} has a cluster {taken.name} in {taken.location} ({taken.status}); xpk"
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
    return next((one for one in listed if one.name == line.place.cluster and one.location.startswith(region)), None)
