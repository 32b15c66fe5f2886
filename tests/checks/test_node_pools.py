"""Nodes for whole slices, and for a Pathways head."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.test_demand import demand
from tests.control_plane.nodes import Slices, nodes
from tests.kubeobjects import parsed, parsed_nodes
from xsft.base.problems import Problem
from xsft.checks.node_pools import check_node_pools
from xsft.cluster.objects import RESOURCE_FLAVOR

Json = dict[str, Any]
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
TAINT = {"key": "team", "value": "other", "effect": "NoSchedule"}


def pools(count: int) -> tuple[Json, ...]:
    """Hosts of slices of v6e-256, and the nodes for heads."""
    all_nodes = nodes((Slices(tpu_type="v6e-256", count=count),))
    return tuple({**node, "status": {**node["status"], **READY}} for node in all_nodes)


def said(
    node_list: tuple[Json, ...], name: str = "deepseek_ultrachat", *, flavors: dict[str, Json] | None = None
) -> list[Problem]:
    """The problems of the flagship, which asks for two slices and one head."""
    hosts = [node for node in node_list if "google.com/tpu" in node["status"]["allocatable"]]
    other_nodes = [node for node in node_list if node not in hosts]
    pods = {"worker": hosts, "slice-job": hosts, "pathways-head": other_nodes}
    selected = {of_pods: parsed_nodes(nodes) for of_pods, nodes in pods.items()}
    typed_flavors = {flavor: parsed(json, RESOURCE_FLAVOR) for flavor, json in (flavors or {}).items()}
    return list(check_node_pools(selected, demand(name), context="c", flavors=typed_flavors))


@pytest.mark.parametrize("name", ["deepseek_ultrachat", "deepseek_ultrachat_mcjax"])
def test_enough_slices_and_a_large_head_are_no_problem(name: str) -> None:
    assert said(pools(2), name) == []


def test_a_slice_too_few_is_a_warning_with_the_numbers() -> None:
    (problem,) = said(pools(1))
    assert (problem.id, problem.severity, problem.where) == ("slices-missing", "warning", "tpu")
    assert "has 1 slice of v6e-256; the run asks for 2" in problem.message
    assert "--num-slices=2" in problem.fix
    assert "tpu.num_slices: 1" in problem.fix


def test_missing_slices_of_the_type_are_reported() -> None:
    (problem,) = said(pools(0))
    assert "has no slices of v6e-256" in problem.message
    assert "gke-tpu-topology=16x16" in problem.message


def spoilt(change: Json, *, at: int) -> tuple[Json, ...]:
    return tuple({**node, **change} if index == at else node for index, node in enumerate(pools(2)))


def test_taint_tolerated_by_the_flavor_is_no_problem() -> None:
    """Kueue adds the tolerations of the flavor to the pods."""
    flavor = {"spec": {"tolerations": [{"key": "team", "operator": "Equal", "value": "other"}]}}
    tainted = spoilt({"spec": {"taints": [TAINT]}}, at=0)
    assert [reported.id for reported in said(tainted)] == ["slices-unavailable"]
    assert said(tainted, flavors={"tpu": flavor}) == []


BROKEN: dict[str, tuple[Json, str, str]] = {
    "cordoned": ({"spec": {"unschedulable": True}}, "cordoned: gke-xsft-v6e-256-np-1-000", "uncordon -l"),
    "not Ready": ({"status": {"allocatable": {"google.com/tpu": "4"}}}, "not Ready", "get nodes -l"),
    "tainted": ({"spec": {"taints": [TAINT]}}, "tainted team:NoSchedule", "taint nodes -l"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_unusable_slice_is_reported_with_the_command(case: str) -> None:
    change, why, command = BROKEN[case]
    (problem,) = said(spoilt(change, at=64))
    assert (problem.id, problem.severity) == ("slices-unavailable", "warning")
    assert "1 can be used now, and the run asks for 2" in problem.message
    assert f"xsft-v6e-256-np-1 ({why}" in problem.message
    assert f"kubectl --context c {command} cloud.google.com/gke-nodepool=xsft-v6e-256-np-1" in problem.fix


def test_slice_without_all_its_hosts_is_not_counted() -> None:
    (problem,) = said(pools(2)[1:])
    assert "xsft-v6e-256-np-0 (63 of 64 hosts)" in problem.message


def test_a_spare_slice_makes_up_for_a_cordoned_one() -> None:
    assert said((*pools(3)[1:],)) == []


def test_tolerated_and_preferred_taints_are_no_problem() -> None:
    mild = {**TAINT, "effect": "PreferNoSchedule"}
    tolerated = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
    assert said(spoilt({"spec": {"taints": [mild, tolerated]}}, at=64)) == []


def heads(**allocatable: str) -> tuple[Json, ...]:
    return tuple(
        node
        if "google.com/tpu" in node["status"]["allocatable"]
        else {**node, "status": {**READY, "allocatable": {"cpu": "64", "memory": "256Gi", **allocatable}}}
        for node in pools(2)
    )


@pytest.mark.parametrize(("allocatable", "has"), [({"cpu": "31850m"}, "31.85 cpu"), ({"memory": "120Gi"}, "120 GiB")])
def test_head_larger_than_every_node_is_a_disputable_error(allocatable: dict[str, str], has: str) -> None:
    (problem,) = said(heads(**allocatable))
    assert (problem.id, problem.severity, problem.kind) == ("head-node-small", "error", "disputable")
    assert "asks for 48 cpu and 216.1 GiB of memory" in problem.message
    assert has in problem.message


def test_cluster_without_head_nodes_gives_a_warning() -> None:
    (problem,) = said(tuple(node for node in pools(2) if "google.com/tpu" in node["status"]["allocatable"]))
    assert (problem.id, problem.severity) == ("head-node-missing", "warning")
    assert "gke-nodepool=cpu-np" in problem.message
    assert "xpk cluster create-pathways" in problem.fix


def test_cordoned_head_nodes_count_as_missing() -> None:
    closed = tuple(
        node if "google.com/tpu" in node["status"]["allocatable"] else {**node, "spec": {"unschedulable": True}}
        for node in pools(2)
    )
    assert [p.id for p in said(closed)] == ["head-node-missing"]


def test_a_pod_set_whose_nodes_were_not_read_is_not_checked() -> None:
    assert list(check_node_pools({}, demand("deepseek_ultrachat"), context="c", flavors={})) == []
