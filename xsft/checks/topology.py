"""Check Kueue's topologies: the nodes have the labels of every level, else Kueue admits no pod of the flavor. Pure.

source: kueue@v0.19.2 pkg/cache/scheduler/tas_flavor_snapshot.go ("no topology domains at level") and tas_flavor.go:
only nodes with the labels of the flavor and of all levels count.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from xsft.base.acceptance import LateProblem
from xsft.base.aliases import JsonObject
from xsft.base.lenient import mapping, rows, text
from xsft.base.problems import Problem
from xsft.checks.demand import Demand, PodSet
from xsft.checks.quota import groups_of

TOPOLOGY_LABELS = LateProblem(id="topology-labels")


def topology_of(flavor: JsonObject) -> str | None:
    """Return the name of the flavor's topology; None if it has none."""
    return text(mapping(flavor, "spec").get("topologyName"))


def topology_problems(
    queue: JsonObject,
    flavors: Mapping[str, JsonObject],
    topologies: Mapping[str, JsonObject],
    nodes: Mapping[str, tuple[JsonObject, ...]],
    demand: Demand,
    *,
    context: str,
) -> Iterator[Problem]:
    """Yield a warning per pod set of which too few nodes have a topology's labels. `topologies`: by name, those that
    could be read; `nodes`: by pod set, those that it selects.
    """
    for group in groups_of(queue, flavors):
        for pods in demand.pod_sets:
            named = {topology_of(flavors.get(flavor.name, {})) for flavor in group.matching_flavors(pods)}
            topology = topologies.get(str(next(iter(named)))) if len(named) == 1 else None
            if topology is not None and pods.name in nodes:
                yield from _unlabelled_nodes_problem(topology, nodes[pods.name], pods, context)


def _unlabelled_nodes_problem(
    topology: JsonObject, nodes: tuple[JsonObject, ...], pods: PodSet, context: str
) -> Iterator[Problem]:
    levels = [str(level.get("nodeLabel")) for level in rows(mapping(topology, "spec").get("levels"))]
    counts = {level: sum(level in mapping(node, "metadata", "labels") for node in nodes) for level in levels}
    lacking = next((level for level, count in counts.items() if count < len(nodes)), None)
    whole = sum(all(level in mapping(node, "metadata", "labels") for level in levels) for node in nodes)
    if lacking is None or whole >= min(pods.pods, len(nodes)):
        return
    name = mapping(topology, "metadata").get("name")
    message = (
        f"Kueue would not admit {pods.name}: its topology {name} has the level {lacking}, and {counts[lacking]} of"
        f" {len(nodes)} nodes that the pods select have that label (Kueue says: no topology domains at level)."
    )
    look = shlex.join(("kubectl", "--context", context, "get", "nodes", "-L", ",".join(levels)))
    fix = f"Ask the administrator to label the nodes, or to use a flavor without topologyName. {look} lists them."
    yield TOPOLOGY_LABELS.warning("queue", message, fix)
