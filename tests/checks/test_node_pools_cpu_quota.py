"""Room for a CPU job in a queue and on the nodes of the cluster."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.checks.test_admission import facts, queue
from tests.checks.test_admission import said as of_training
from tests.cpujobs import planned
from tests.kubeobjects import parsed_nodes
from xsft.base.problems import Problem
from xsft.catalog.machines import GIB
from xsft.checks.admission import UnreadFact, admission_problems
from xsft.checks.demand import Demand, demand_of


def demand(**settings: Any) -> Demand:
    run_plan = planned(**settings)
    return demand_of(run_plan.manifest or {}, run_plan.run)


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
    facts_read = facts(
        nodes=parsed_nodes(nodes) if isinstance(nodes, tuple) else nodes,
        secrets=secrets,
        **({"cluster_queue": queue(resourceGroups=list(groups))} if groups else {}),
    )
    return admission_problems(facts_read, demand(**settings))


TPU_ONLY = group("2xv6e-256", tpu=512)


def test_queue_of_a_pathways_cluster_accepts_cpu_jobs() -> None:
    assert said(nodes=(node("244Gi"),)) == ()


def test_queue_without_cpu_is_an_error_with_the_fixing_command() -> None:
    (problem,) = said(TPU_ONLY)
    assert (problem.id, problem.severity, problem.where) == ("queue-without-cpu", "error", "queue")
    assert "no quota for cpu and memory" in problem.message
    flavor, cover = problem.fix.partition(": ")[2].split(" ; ")
    document = json.loads(shlex.split(flavor)[1])
    (added,) = json.loads(shlex.split(cover)[-1])
    assert document["metadata"]["name"] == added["value"]["flavors"][0]["name"] == "cpu-user"
    assert document["spec"]["nodeLabels"] == {"cloud.google.com/gke-nodepool": "cpu-np"}
    assert added["value"] == group("cpu-user", cpu=480, memory="2000G")


def test_fix_covers_only_resources_without_quota() -> None:
    """Kueue takes a resource in one group only, and a flavor in one group only."""
    (problem,) = said(TPU_ONLY, group("cpu-user", cpu=480))
    (added,) = json.loads(shlex.split(problem.fix.split(" ; ")[1])[-1])
    assert added["value"] == group("xsft-cpu", memory="2000G")


def test_fix_for_a_large_model_gives_enough_quota() -> None:
    (problem,) = said(TPU_ONLY, memory=2300 * GIB)
    assert str(2300 * GIB) in problem.fix


def test_queue_with_cpu_of_tpu_hosts_only_is_an_error() -> None:
    """xpk makes one where the cluster has a --cpu-limit. source: xpk@1.16.0 core/kueue_manager.py"""
    (problem,) = said(group("2xv6e-256", tpu=512, cpu=1000, memory="4000G"))
    assert (problem.id, problem.severity) == ("cpu-on-tpu", "error")
    assert "2xv6e-256" in problem.message


@pytest.mark.parametrize(
    ("quota", "resource"), [({"cpu": 2, "memory": "2000G"}, "cpu"), ({"cpu": 480, "memory": "11Gi"}, "memory")]
)
def test_too_small_cpu_or_memory_quota_is_reported(quota: dict[str, object], resource: str) -> None:
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
def test_missing_large_node_is_a_warning(nodes: tuple[dict[str, Any], ...], has: str) -> None:
    (problem,) = said(nodes=nodes)
    assert (problem.id, problem.severity) == ("node-memory", "warning")
    assert problem.message == f"slice-job asks for 12 GiB of memory, and the cluster has {has}."


@pytest.mark.parametrize("nodes", [None, UnreadFact(why="nodes is forbidden")])
def test_unreadable_nodes_are_not_checked(nodes: object) -> None:
    assert said(nodes=nodes) == ()


def test_training_on_a_queue_without_cpu_is_reported_as_uncovered() -> None:
    reported = of_training(facts(cluster_queue=queue(resourceGroups=[TPU_ONLY])))
    assert [p.id for p in reported] == ["quota-uncovered"] * 2
