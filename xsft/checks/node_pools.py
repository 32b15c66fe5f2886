"""Check the nodes that pods select: whole slices, a node that holds a Pathways head, and room for a CPU job. Pure.

A missing slice is a warning, because a node pool may be added or grow. Nodes without chips that are all too small are
an error: the machines of a node pool are alike.

xpk's ClusterQueue covers google.com/tpu alone; cpu and memory only on clusters made for Pathways, with the flavor `cpu-
user` of the pool `cpu-np`, and never ephemeral-storage. source: xpk@1.16.0 core/kueue_manager.py, run against Kueue
v0.16.1: "resource memory unavailable in ClusterQueue" (status of the Workload).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.acceptance import LateProblem
from xsft.base.problems import Problem, error
from xsft.checks.demand import TPU, Demand, PodSet, decimal_text, quantity
from xsft.checks.quota import Group, check_quota, groups_of, labels_text, tolerates
from xsft.cluster.jobset_fields import shape_of
from xsft.cluster.objects import ClusterQueue, ResourceFlavor, Taint
from xsft.cluster.supply import NODE_POOL, Node, SliceUnit, slice_units
from xsft.records.jobset_paths import INSTANCE_TYPE, TPU_NODE

SLICES_MISSING = LateProblem(id="slices-missing")
SLICES_UNAVAILABLE = LateProblem(id="slices-unavailable")
HEAD_NODE_SMALL = LateProblem(id="head-node-small")
HEAD_NODE_MISSING = LateProblem(id="head-node-missing")

SHOWN = 3
"""Number of slices that a message lists."""
NODE_MEMORY = LateProblem(id="node-memory")

WANTED = ("cpu", "memory")
XPK_QUOTA: Mapping[str, object] = {"cpu": 480, "memory": "2000G"}
"""The quota that xpk gives to Pathways heads."""
FLAVOR = "cpu-user"
POOL = {"cloud.google.com/gke-nodepool": "cpu-np"}
"""xpk's node pool for Pathways heads; its flavor has that name. source, both: xpk@1.16.0 core/kueue_manager.py"""
OWN_FLAVOR = "xsft-cpu"
"""The flavor's name if the queue already uses xpk's: a queue may list a flavor in one group only."""


class Obstacle(Struct, frozen=True, kw_only=True):
    """A reason that a run cannot use a slice now, and the command that removes it."""

    slice: str
    why: str
    fix: str

    @property
    def text(self) -> str:
        return f"{self.slice} ({self.why})"


def check_node_pools(
    nodes: Mapping[str, tuple[Node, ...]],
    demand: Demand,
    *,
    context: str,
    flavors: Mapping[str, ResourceFlavor],
    occupied: Mapping[str, str] = {},
) -> Iterator[Problem]:
    """Yield the problems of the nodes. `nodes`: for each pod set, by name, the nodes that its node selector selects; a
    pod set whose nodes could not be read is not checked. `flavors`: the queue's; Kueue adds the tolerations of the one
    that it assigns to the pods. `occupied`: as in `ClusterFacts`. source: kueue@v0.16.1
    apis/kueue/v1beta1/resourceflavor_types.go, tolerations.
    """
    added = tuple(toleration for flavor in flavors.values() for toleration in flavor.spec.tolerations)
    for pods in (replace(pod_set, tolerations=(*pod_set.tolerations, *added)) for pod_set in demand.pod_sets):
        selected = nodes.get(pods.name)
        if selected is None:
            continue
        if pods.requests.get(TPU):
            yield from _check_slices(selected, pods, context, occupied)
        elif demand.asks_chips:
            yield from _check_head_node(selected, pods, context)


def _check_slices(
    nodes: tuple[Node, ...], pods: PodSet, context: str, occupied: Mapping[str, str]
) -> Iterator[Problem]:
    shape = shape_of(pods.node_selector)
    if shape is None:
        return
    requested = -(-pods.pods // shape.hosts)
    units = [unit for unit in slice_units(nodes) if unit.shape == shape]
    obstacles = [obstacle for unit in units for obstacle in _obstacle(unit, pods, context, occupied)]
    if len(units) < requested:
        existing = len(units)
        usable = f", of which {existing - len(obstacles)} can be used now" if obstacles else ""
        count = f"{existing or 'no'} {'slice' if existing == 1 else 'slices'} of {shape.tpu_type}"
        fix = (
            f"`xpk cluster create … --tpu-type={shape.tpu_type} --num-slices={requested}` adds node pools to a cluster"
        )
        fewer = (
            f"; or request fewer slices (tpu.num_slices: {existing})"
            if existing
            else "; or use another type (tpu.type)"
        )
        yield SLICES_MISSING.warning(
            "tpu",
            f"The cluster has {count}{usable}; the run asks for {requested} (nodes with"
            f" {labels_text(pods.node_selector)}). Unless a node pool scales up, the run is admitted and holds "
            "its quota while it waits for nodes.",
            f"{fix}{fewer}.",
        )
    elif len(units) - len(obstacles) < requested:
        more = f" and {len(obstacles) - SHOWN} more" if len(obstacles) > SHOWN else ""
        listed = "; ".join(one.text for one in obstacles[:SHOWN])
        fixes = " ; ".join(dict.fromkeys(one.fix for one in obstacles[:SHOWN]))
        yield SLICES_UNAVAILABLE.warning(
            "tpu",
            f"Of the cluster's slices of {shape.tpu_type}, {len(units) - len(obstacles)} can be used now, and "
            f"the run asks for {requested}. Not usable: {listed}{more}.",
            f"Ask the administrator, or run: {fixes}",
        )


def _obstacle(unit: SliceUnit, pods: PodSet, context: str, occupied: Mapping[str, str]) -> Iterator[Obstacle]:
    """Yield the first reason that the slice cannot be used, if there is one."""
    selector = f"{NODE_POOL}={unit.name}" if unit.shape.hosts > 1 else f"kubernetes.io/hostname={unit.name}"
    kubectl = shlex.join(("kubectl", "--context", context))
    cordoned = [node for node in unit.nodes if node.spec.unschedulable]
    not_ready = [node for node in unit.nodes if not node.ready]
    taints = [taint for node in unit.nodes for taint in _untolerated_taints(node, pods)]
    chips = pods.requests[TPU] / pods.pods
    few = next((has for node in unit.nodes if 0 < (has := allocatable(node, TPU)) < chips), None)
    look = f"{kubectl} get nodes -l {selector}"
    if len(unit.nodes) < unit.shape.hosts:
        yield Obstacle(slice=unit.name, why=f"{len(unit.nodes)} of {unit.shape.hosts} hosts", fix=look)
    elif cordoned:
        yield Obstacle(
            slice=unit.name, why=f"cordoned: {_node_names(cordoned)}", fix=f"{kubectl} uncordon -l {selector}"
        )
    elif not_ready:
        yield Obstacle(slice=unit.name, why=f"not Ready: {_node_names(not_ready)}", fix=look)
    elif few is not None:
        why = f"a host gives {decimal_text(few)} chips, and a pod asks for {decimal_text(chips)}"
        yield Obstacle(slice=unit.name, why=why, fix=look)
    elif taints:
        taint = f"{taints[0].key}:{taints[0].effect}"
        yield Obstacle(
            slice=unit.name,
            why=f"tainted {taint}, which the pods do not tolerate",
            fix=f"{kubectl} taint nodes -l {selector} {taint}-",
        )
    elif jobset := next((occupied[node.name] for node in unit.nodes if node.name in occupied), None):
        namespace, _, name = jobset.partition("/")
        yield Obstacle(
            slice=unit.name,
            why=f"held by the JobSet {jobset}, which is in no queue",
            fix=f"{kubectl} -n {namespace} get jobset {name}",
        )


def _check_head_node(nodes: tuple[Node, ...], pods: PodSet, context: str) -> Iterator[Problem]:
    """Check that one node holds one pod: a pod cannot be split."""
    requested = {name: amount / pods.pods for name, amount in pods.requests.items() if amount and pods.pods}
    if not nodes:
        yield HEAD_NODE_MISSING.warning(
            "mode",
            f"The cluster has no node with {labels_text(pods.node_selector)}, where {pods.name} runs (it asks for"
            f" {_list_amounts(requested)}). Unless a node pool scales up, the workers hold their slices while "
            "it waits.",
            "`xpk cluster create-pathways …` on the same cluster adds the node pool for Pathways heads.",
        )
        return
    if any(all(allocatable(node, name) >= amount for name, amount in requested.items()) for node in nodes):
        if all(node.spec.unschedulable or _untolerated_taints(node, pods) or not node.ready for node in nodes):
            where = labels_text(pods.node_selector)
            yield HEAD_NODE_MISSING.warning(
                "mode",
                f"No node with {where} takes {pods.name} now: all are cordoned, tainted or not Ready.",
                f"Ask the administrator; {_nodes_command(pods, context)} (`kubectl uncordon NODE` opens a "
                "cordoned one).",
            )
        return
    largest = max(nodes, key=lambda node: tuple(allocatable(node, name) for name in sorted(requested)))
    has = ", ".join(_amount(name, allocatable(largest, name)) for name in sorted(requested))
    listing = _nodes_command(pods, context)
    yield HEAD_NODE_SMALL.error(
        "mode",
        f"No node holds {pods.name}: a pod asks for {_list_amounts(requested)}, and the largest node with"
        f" {labels_text(pods.node_selector)} can give {has} ({largest.name}). The workers would hold their"
        " slices while it waits.",
        f"Recreate that node pool with larger machines (xpk's are n2-standard-64); {listing} lists it.",
    )


def _nodes_command(pods: PodSet, context: str) -> str:
    selector = ",".join(f"{key}={value}" for key, value in pods.node_selector.items())
    return shlex.join(("kubectl", "--context", context, "get", "nodes", "-l", selector))


def _untolerated_taints(node: Node, pods: PodSet) -> list[Taint]:
    """Return the taints that the pods do not tolerate, without those that Kubernetes sets for a state reported
    elsewhere."""
    taints = [taint for taint in node.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
    return [taint for taint in taints if not tolerates(pods.tolerations, taint)]


def allocatable(node: Node, resource: str) -> Decimal:
    return quantity(node.status.allocatable.get(resource, 0))


def _list_amounts(requested: Mapping[str, Decimal]) -> str:
    return " and ".join(_amount(name, amount) for name, amount in sorted(requested.items()))


def _amount(resource: str, amount: Decimal) -> str:
    return f"{amount / 2**30:.4g} GiB of memory" if resource == "memory" else f"{decimal_text(amount)} {resource}"


def _node_names(nodes: list[Node]) -> str:
    return nodes[0].name if len(nodes) == 1 else f"{nodes[0].name} and {len(nodes) - 1} more"


def check_cpu_quota(
    queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], demand: Demand, *, context: str
) -> Iterator[Problem]:
    """Yield the problems of `check_quota`, with commands that fix them. `context`: the kubeconfig context for those
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
        yield error(
            "cpu-on-tpu",
            "queue",
            f"The ClusterQueue {queue.name} gives cpu and memory from TPU hosts only ({names}). A CPU "
            "job would occupy a host of a slice, and the slice's chips would be idle.",
            "Use another queue, or ask for a flavor of CPU nodes in it; or use a TPU slice: --on-tpu.",
        )
    else:
        yield from check_quota(queue, flavors, demand)


def check_cpu_nodes(nodes: tuple[Node, ...], demand: Demand) -> Iterator[Problem]:
    """Yield a warning if none of `nodes` (those without chips) holds the job; a node pool may grow or be added, so it
    is not an error."""
    for pods in demand.pod_sets:
        each = pods.requested("memory") / (pods.pods or 1)
        largest = max(nodes, key=lambda node: allocatable(node, "memory"), default=None)
        if largest is None or allocatable(largest, "memory") < each:
            has = "no node without chips"
            if largest is not None:
                machine = largest.metadata.labels.get(INSTANCE_TYPE)
                named = f"{largest.name}, {machine}" if machine else largest.name
                has = f"no node with more than {_gib(allocatable(largest, 'memory'))} ({named})"
            yield NODE_MEMORY.warning(
                "",
                f"{pods.name} asks for {_gib(each)} of memory, and the cluster has {has}.",
                "The pod waits until a node pool grows by one that is large enough; otherwise add such a pool.",
            )


def _uncovered_cpu_problem(
    queue: ClusterQueue, groups: tuple[Group, ...], missing: tuple[str, ...], *, demand: Demand, context: str
) -> Problem:
    name = queue.name
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
    apply = shlex.join(("kubectl", "--context", context, "apply", "-f", "-"))
    return f"echo {shlex.quote(json.dumps(flavor))} | {apply}"


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


def _on_chips(group: Group, flavors: Mapping[str, ResourceFlavor], demand: Demand) -> str | None:
    """Return the flavors' names if every flavor that the job could get means TPU hosts."""
    names = [f.name for pods in demand.pod_sets for f in group.matching_flavors(pods)]
    of_chips = [name for name in names if name in flavors and TPU_NODE in flavors[name].spec.node_labels]
    return ", ".join(dict.fromkeys(names)) if names and len(of_chips) == len(names) else None


def _gib(amount: Decimal) -> str:
    return f"{amount / 2**30:.4g} GiB"
