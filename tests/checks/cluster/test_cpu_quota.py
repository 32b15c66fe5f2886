"""Room for a CPU job in a queue and on the nodes."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.checks.cluster.test_admission import facts, queue
from tests.checks.cluster.test_admission import said as of_training
from tests.cpujobs import planned
from xsft.catalog.cpu import GIB
from xsft.checks.cluster.admission import Unseen, admission_problems
from xsft.checks.cluster.demand import Demand, demand_of
from xsft.problems import Problem


def demand(**settings: Any) -> Demand:
    made = planned(**settings)
    return demand_of(made.manifest or {}, made.run)


def node(memory: str, name: str = "cpu-1") -> dict[str, Any]:
    labels = {"node.kubernetes.io/instance-type": "n2-standard-64"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"memory": memory}}}


def group(flavor: str, **quotas: object) -> dict[str, Any]:
    """`cpu=480` of one flavor; `tpu` is google.com/tpu."""
    named = {"google.com/tpu" if name == "tpu" else name: much for name, much in quotas.items()}
    resources = [{"name": name, "nominalQuota": much} for name, much in named.items()]
    return {"coveredResources": [*named], "flavors": [{"name": flavor, "resources": resources}]}


def said(*groups: dict[str, Any], nodes: Any = None, **settings: Any) -> tuple[Problem, ...]:
    secrets = {"hf-token": frozenset({"token"})}
    given = facts(nodes=nodes, secrets=secrets, **({"cluster_queue": queue(resourceGroups=groups)} if groups else {}))
    return admission_problems(given, demand(**settings))


TPU_ONLY = group("2xv6e-256", tpu=512)


def test_a_queue_that_was_made_for_pathways_takes_it() -> None:
    assert said(nodes=(node("244Gi"),)) == ()


def test_a_queue_of_chips_alone_is_an_error_with_the_command_that_fixes_it() -> None:
    (problem,) = said(TPU_ONLY)
    assert (problem.id, problem.severity, problem.where) == ("queue-without-cpu", "error", "queue")
    assert "no quota for cpu and memory" in problem.message
    flavor, cover = problem.fix.partition(": ")[2].split(" ; ")
    made = json.loads(shlex.split(flavor)[1])
    (added,) = json.loads(shlex.split(cover)[-1])
    assert made["metadata"]["name"] == added["value"]["flavors"][0]["name"] == "cpu-user"
    assert made["spec"]["nodeLabels"] == {"cloud.google.com/gke-nodepool": "cpu-np"}
    assert added["value"] == group("cpu-user", cpu=480, memory="2000G")


def test_what_is_covered_already_is_not_covered_twice() -> None:
    """Kueue takes a resource in one group only, and a flavor in one group only."""
    (problem,) = said(TPU_ONLY, group("cpu-user", cpu=480))
    (added,) = json.loads(shlex.split(problem.fix.split(" ; ")[1])[-1])
    assert added["value"] == group("xsft-cpu", memory="2000G")


def test_a_model_above_xpks_quota_gets_a_quota_that_holds_it() -> None:
    (problem,) = said(TPU_ONLY, memory=2300 * GIB)
    assert str(2300 * GIB) in problem.fix


def test_a_queue_that_gives_cpu_from_tpu_hosts_only_would_take_a_slice() -> None:
    """xpk makes one where the cluster has a --cpu-limit. source: xpk@1.16.0 core/kueue_manager.py"""
    (problem,) = said(group("2xv6e-256", tpu=512, cpu=1000, memory="4000G"))
    assert (problem.id, problem.severity) == ("cpu-on-tpu", "error")
    assert "2xv6e-256" in problem.message


@pytest.mark.parametrize(
    ("quota", "resource"), [({"cpu": 2, "memory": "2000G"}, "cpu"), ({"cpu": 480, "memory": "11Gi"}, "memory")]
)
def test_a_quota_that_is_too_small(quota: dict[str, object], resource: str) -> None:
    (problem,) = said(TPU_ONLY, group("cpu-user", **quota))
    assert problem.id == "quota-too-small"
    assert f" {resource}, " in problem.message


@pytest.mark.parametrize(
    ("nodes", "has"),
    [
        ((), "no node without chips"),
        ((node("8Gi"), node("11.5Gi", "cpu-2")), "no node with more than 11.5 GiB (cpu-2, n2-standard-64)"),
    ],
)
def test_no_node_is_large_enough_yet(nodes: tuple[dict[str, Any], ...], has: str) -> None:
    (problem,) = said(nodes=nodes)
    assert (problem.id, problem.severity) == ("node-memory", "warning")
    assert problem.message == f"slice-job asks for 12 GiB of memory, and the cluster has {has}."


@pytest.mark.parametrize("nodes", [None, Unseen(why="nodes is forbidden")])
def test_nodes_that_may_not_be_read_are_not_talked_of(nodes: object) -> None:
    assert said(nodes=nodes) == ()


def test_a_training_is_judged_as_before() -> None:
    found = of_training(facts(cluster_queue=queue(resourceGroups=[TPU_ONLY])))
    assert [p.id for p in found] == ["quota-uncovered"] * 2
