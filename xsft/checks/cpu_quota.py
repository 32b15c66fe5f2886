"""Check whether a cluster's queue and nodes can ever hold a CPU job. Pure.

xpk's ClusterQueue covers google.com/tpu alone; cpu and memory only on clusters made for Pathways, with the flavor
`cpu-user` of the pool `cpu-np`, and never ephemeral-storage. source: xpk@1.16.0 core/kueue_manager.py, run against
Kueue v0.16.1: "resource memory unavailable in ClusterQueue" (status of the Workload).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from decimal import Decimal

from xsft.base.acceptance import LateProblem
from xsft.base.aliases import JsonObject
from xsft.base.lenient import mapping
from xsft.base.problems import Problem, error
from xsft.checks.demand import Demand, PodSet, quantity
from xsft.checks.node_pools import allocatable
from xsft.checks.quota import Group, groups_of, quota_problems
from xsft.records.labels import INSTANCE_TYPE, TPU_NODE

NODE_MEMORY = LateProblem(id="node-memory")

WANTED = ("cpu", "memory")
XPK_QUOTA: Mapping[str, object] = {"cpu": 480, "memory": "2000G"}
"""The quota that xpk gives to Pathways heads."""
FLAVOR = "cpu-user"
POOL = {"cloud.google.com/gke-nodepool": "cpu-np"}
"""xpk's node pool for Pathways heads; its flavor has that name. source, both: xpk@1.16.0 core/kueue_manager.py"""
OWN_FLAVOR = "xsft-cpu"
"""The flavor's name if the queue already uses xpk's: a queue may list a flavor in one group only."""


def cpu_quota_problems(
    queue: JsonObject, flavors: Mapping[str, JsonObject], demand: Demand, *, context: str
) -> Iterator[Problem]:
    """Yield the problems of `quota_problems`, with commands that fix them. `context`: the kubeconfig context for those
    commands."""
    groups = groups_of(queue, flavors)
    covered = {name for group in groups for name in group.resources}
    missing = tuple(name for name in WANTED if name not in covered)
    if missing:
        yield _uncovered_cpu_problem(queue, groups, missing, demand=demand, context=context)
        return
    of_chips = [_on_chips(group, flavors, demand) for group in groups if set(WANTED) & set(group.resources)]
    names = next(filter(None, of_chips), None)
    if names:
        yield _tpu_flavor(queue, names)
    else:
        yield from quota_problems(queue, flavors, demand)


def node_problems(nodes: tuple[JsonObject, ...], demand: Demand) -> Iterator[Problem]:
    """Yield a warning if none of `nodes` (those without chips) holds the job; a node pool may grow or be added, so it
    is not an error."""
    for pods in demand.pod_sets:
        each = pods.requested("memory") / (pods.pods or 1)
        largest = max(nodes, key=lambda node: allocatable(node, "memory"), default=None)
        if largest is None or allocatable(largest, "memory") < each:
            yield _no_node(pods, each, largest)


def _uncovered_cpu_problem(
    queue: JsonObject, groups: tuple[Group, ...], missing: tuple[str, ...], *, demand: Demand, context: str
) -> Problem:
    name = queue["metadata"]["name"]
    used = {flavor.name for group in groups for flavor in group.flavors}
    flavor = OWN_FLAVOR if FLAVOR in used else FLAVOR
    commands = (_make_flavor(flavor, context), _cover(name, flavor, missing, demand=demand, context=context))
    return error(
        "queue-without-cpu",
        "queue",
        f"The ClusterQueue {name} has no quota for {' and '.join(missing)}: Kueue would never admit"
        f" {demand.jobset}, which runs on a CPU node.",
        f"Ask the administrator to run, with the node pool of your CPU nodes: {' ; '.join(commands)}",
    )


def _make_flavor(name: str, context: str) -> str:
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": POOL},
    }
    made = shlex.join(("kubectl", "--context", context, "apply", "-f", "-"))
    return f"echo {shlex.quote(json.dumps(flavor))} | {made}"


def _cover(queue: str, flavor: str, missing: tuple[str, ...], *, demand: Demand, context: str) -> str:
    """Return the kubectl line that adds the flavor with xpk's own quota, or with the job's request if that is
    larger.
    """
    resources = [{"name": name, "nominalQuota": _quota_for(name, demand)} for name in missing]
    group = {"coveredResources": list(missing), "flavors": [{"name": flavor, "resources": resources}]}
    patch = [{"op": "add", "path": "/spec/resourceGroups/-", "value": group}]
    where = ("kubectl", "--context", context, "patch", "clusterqueue", queue)
    return shlex.join((*where, "--type=json", "-p", json.dumps(patch)))


def _quota_for(name: str, demand: Demand) -> object:
    requested = sum((pods.requested(name) for pods in demand.pod_sets), Decimal(0))
    return XPK_QUOTA[name] if requested <= quantity(XPK_QUOTA[name]) else int(requested)


def _on_chips(group: Group, flavors: Mapping[str, JsonObject], demand: Demand) -> str | None:
    """Return the flavors' names if every flavor that the job could get means TPU hosts."""
    names = [f.name for pods in demand.pod_sets for f in group.matching_flavors(pods)]
    of_chips = [name for name in names if TPU_NODE in mapping(flavors.get(name), "spec", "nodeLabels")]
    return ", ".join(dict.fromkeys(names)) if names and len(of_chips) == len(names) else None


def _tpu_flavor(queue: JsonObject, flavors: str) -> Problem:
    return error(
        "cpu-on-tpu",
        "queue",
        f"The ClusterQueue {queue['metadata']['name']} gives cpu and memory from TPU hosts only ({flavors}). A CPU "
        "job would occupy a host of a slice, and the slice's chips would be idle.",
        "Use another queue, or ask for a flavor of CPU nodes in it; or use a TPU slice: --on-tpu.",
    )


def _no_node(pods: PodSet, requested: Decimal, largest: JsonObject | None) -> Problem:
    has = "no node without chips"
    if largest is not None:
        labels = largest["metadata"].get("labels") or {}
        machine = labels.get(INSTANCE_TYPE)
        named = f"{largest['metadata']['name']}{f', {machine}' if machine else ''}"
        has = f"no node with more than {_gib(allocatable(largest, 'memory'))} ({named})"
    return NODE_MEMORY.warning(
        "",
        f"{pods.name} asks for {_gib(requested)} of memory, and the cluster has {has}.",
        "The pod waits until a node pool grows by one that is large enough; otherwise add such a pool.",
    )


def _gib(amount: Decimal) -> str:
    return f"{amount / 2**30:.4g} GiB"
