"""Check whether a place has what runs of each mode need, and name the command that provides what is missing. Pure.

source of what xpk makes in a cluster: xpk@1.16.0 core/kueue_manager.py, core/nodepool.py and commands/cluster.py.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from xsft.base.lenient import JsonObject, object_name
from xsft.base.names import MODES, ModeName, single_controller
from xsft.checks.admission import UnreadFact, listed
from xsft.checks.controllers import CONTROLLERS
from xsft.checks.node_pools import POOL, WANTED
from xsft.checks.pathways import check_servers
from xsft.cluster.objects import ClusterQueue, LocalQueue
from xsft.cluster.supply import Node, supplies
from xsft.spec.model import DEFAULT_PRIORITY
from xsft.spec.place import Place

XpkVerb = Literal["create", "create-pathways", "adapt"]
"""Verbs of `xpk cluster` that add what a cluster lacks."""
INSTALL = {
    "JobSet": "Install JobSet: https://jobset.sigs.k8s.io/docs/installation",
    "Kueue": "Install Kueue: https://kueue.sigs.k8s.io/docs/installation",
}
WITH_HEAD = tuple(mode for mode in MODES if single_controller(mode))
PRIORITY_VALUE = 500
"""Value of xpk's class `medium`. source: xpk@1.16.0 templates/kueue_config.yaml.j2"""


class PlaceFacts(Struct, frozen=True, kw_only=True):
    """The facts read of a place's cluster; `UnreadFact` for what could not be read."""

    context: str
    absent: Mapping[str, str] = {}
    """`JobSet` or `Kueue` to the message that says it is not installed."""
    namespace: JsonObject | UnreadFact | None
    queues: tuple[LocalQueue, ...] | UnreadFact
    """LocalQueues of the namespace."""
    cluster_queues: tuple[ClusterQueue, ...] | UnreadFact
    priority_classes: tuple[JsonObject, ...] | UnreadFact
    tpu_nodes: tuple[Node, ...] | UnreadFact
    cpu_nodes: tuple[Node, ...] | UnreadFact


class ModeNeed(Struct, frozen=True, kw_only=True):
    """One thing that runs of a mode need in a place."""

    id: str
    """Stable, e.g. `head-nodes`."""
    modes: tuple[ModeName, ...]
    ok: bool | None
    """None if it could not be read."""
    detail: str
    fix: str = ""
    """The command that provides it, or the key of places.yaml to set."""


def place_needs(name: str, place: Place, facts: PlaceFacts) -> tuple[ModeNeed, ...]:
    """Return the needs of all modes; shared needs come first."""
    return (*_shared_needs(name, place, facts), *_pathways_needs(name, place, facts))


def missing_needs(needs: Iterable[ModeNeed]) -> Mapping[ModeName, tuple[str, ...]]:
    """Return the ids of the needs that each mode lacks."""
    listed = tuple(needs)
    return {mode: tuple(n.id for n in listed if mode in n.modes and n.ok is False) for mode in MODES}


def xpk_cluster_line(place: Place, verb: XpkVerb) -> str:
    """Return the xpk command that adds what an existing cluster lacks, with the placeholders TYPE and N for the
    slices."""
    where = (f"--cluster={place.cluster}", f"--project={place.project}", f"--zone={place.zone}")
    return shlex.join(("xpk", "cluster", verb, *where, "--tpu-type=TYPE", "--num-slices=N"))


def _shared_needs(name: str, place: Place, facts: PlaceFacts) -> Iterator[ModeNeed]:
    for controller in CONTROLLERS:
        absent = facts.absent.get(controller)
        fix = xpk_cluster_line(place, "adapt") if place.cluster else INSTALL[controller]
        yield _need(controller.lower(), MODES, None, ok=absent is None, detail=absent or "installed", fix=fix)
    fix = _kubectl(facts, "create", "namespace", place.namespace)
    is_there = facts.namespace is not None
    yield _need("namespace", MODES, facts.namespace, ok=is_there, detail=place.namespace, fix=fix)
    queues = tuple(queue.name for queue in listed(facts.queues))
    detail = place.queue
    if place.queue not in queues:
        detail = f"no LocalQueue {place.queue}; known: {', '.join(queues) or 'none'}"
    fix = _make_queue(place, facts, queues)
    yield _need("queue", MODES, facts.queues, ok=place.queue in queues, detail=detail, fix=fix)
    ok = DEFAULT_PRIORITY in map(object_name, listed(facts.priority_classes))
    detail = DEFAULT_PRIORITY if ok else f"no PriorityClass {DEFAULT_PRIORITY}, the default of a workload"
    fix = _kubectl(facts, "create", "priorityclass", DEFAULT_PRIORITY, f"--value={PRIORITY_VALUE}")
    yield _need("priority-class", MODES, facts.priority_classes, ok=ok, detail=detail, fix=fix)
    slices = supplies(listed(facts.tpu_nodes), (), {})
    detail = ", ".join(f"{of_type.total} x {of_type.tpu_type}" for of_type in slices) or "no TPU nodes"
    yield _need("tpu-slices", MODES, facts.tpu_nodes, ok=bool(slices), detail=detail, fix=_by_xpk(place, "create"))
    detail = place.output or "no output: every workload must name its bucket"
    fix = f"Set output: gs://my-bucket/runs in the place {name} of places.yaml."
    yield _need("output", MODES, None, ok=place.output is not None, detail=detail, fix=fix)


def _make_queue(place: Place, facts: PlaceFacts, names: tuple[str, ...]) -> str:
    """Return the next step: another queue of the namespace, a new one of the only ClusterQueue, or xpk."""
    if names:
        return f"Set queue: {names[0]} in places.yaml."
    cluster_queues = listed(facts.cluster_queues)
    if len(cluster_queues) != 1:
        return _by_xpk(place, "create")
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": place.queue, "namespace": place.namespace},
        "spec": {"clusterQueue": cluster_queues[0].name},
    }
    return f"echo {shlex.quote(json.dumps(queue))} | {_kubectl(facts, 'create', '-f', '-')}"


def _pathways_needs(name: str, place: Place, facts: PlaceFacts) -> Iterator[ModeNeed]:
    fix = _by_xpk(place, "create-pathways")
    fitting = [node for node in listed(facts.cpu_nodes) if POOL.items() <= node.metadata.labels.items()]
    label = ", ".join(f"{key}={value}" for key, value in POOL.items())
    detail = f"{len(fitting)} nodes for Pathways heads ({label})" if fitting else f"no node with {label}"
    yield _need("head-nodes", WITH_HEAD, facts.cpu_nodes, ok=bool(fitting), detail=detail, fix=fix)
    # Kueue never admits a Pathways run whose head's resources no quota covers.
    unread = next((what for what in (facts.queues, facts.cluster_queues) if isinstance(what, UnreadFact)), None)
    covered = set(_covered_resources(place, facts))
    lacking = [resource for resource in WANTED if resource not in covered]
    detail = f"no quota for {' and '.join(lacking)}" if lacking else f"quota for {' and '.join(WANTED)}"
    yield _need("head-quota", WITH_HEAD, unread, ok=not lacking, detail=detail, fix=fix)
    section = place.pathways
    problems = tuple(check_servers(section))
    for problem in problems:
        fix = f"{problem.fix} (place {name} of places.yaml)"
        yield _need(problem.id, WITH_HEAD, None, detail=problem.message, fix=fix)
    if not problems:
        yield _need("pathways-servers", WITH_HEAD, None, ok=True, detail=f"{section.proxy_image}, {section.scratch}")


def _covered_resources(place: Place, facts: PlaceFacts) -> Iterator[str]:
    names = {queue.spec.cluster_queue for queue in listed(facts.queues) if queue.name == place.queue}
    for queue in listed(facts.cluster_queues):
        if queue.name in names:
            for group in queue.spec.resource_groups:
                yield from group.covered_resources


def _need(
    id: str, modes: tuple[ModeName, ...], read: object, *, ok: bool = False, detail: str = "", fix: str = ""
) -> ModeNeed:
    if isinstance(read, UnreadFact):
        return ModeNeed(id=id, modes=modes, ok=None, detail=f"unknown: {read.why}", fix="Ask for read access.")
    return ModeNeed(id=id, modes=modes, ok=ok, detail=detail, fix="" if ok else fix)


def _by_xpk(place: Place, verb: XpkVerb) -> str:
    if place.cluster is None:
        return "xpk creates it on GKE only; on other clusters ask the administrator."
    return xpk_cluster_line(place, verb)


def _kubectl(facts: PlaceFacts, *arguments: str) -> str:
    return shlex.join(("kubectl", "--context", facts.context, *arguments))
