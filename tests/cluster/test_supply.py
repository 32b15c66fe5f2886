"""The number of a cluster's slices, from nodes and Workloads as GKE and Kueue write them."""

from __future__ import annotations

from typing import Any

from tests.cluster.answers import Answers
from tests.control_plane.nodes import Slices, nodes, ready
from tests.kubeobjects import parsed, parsed_nodes
from xsft.catalog.tpu import parse_tpu_type, slice_of, tpu_types
from xsft.cluster.cluster import Cluster
from xsft.cluster.objects import RESOURCE_FLAVOR, WORKLOAD, Workload, typed
from xsft.cluster.supply import SliceUser, TpuSupply, supplies

POOLS = (Slices(tpu_type="v6e-16", count=2), Slices(tpu_type="v6e-4", count=3))
FLAVORS = {one.flavor: parsed({"spec": {"nodeLabels": one.labels}}, RESOURCE_FLAVOR) for one in POOLS}
CHIPS = {one.tpu_type: one.shape.chips for one in POOLS}


def hosts() -> list[dict[str, Any]]:
    return [ready(node, port=1) for node in nodes(POOLS)]


def workload(jobset: str, pool: Slices, slices: int, *, held: bool) -> Workload:
    chips = slices * pool.shape.chips
    tpu = {"google.com/tpu": str(pool.shape.chips_per_host)}
    pod = {"nodeSelector": pool.labels, "containers": [{"resources": {"limits": tpu}}]}
    usage = {"flavors": {"google.com/tpu": pool.flavor}, "resourceUsage": {"google.com/tpu": str(chips)}}
    reserved = {"type": "QuotaReserved", "status": "True" if held else "False"}
    status: dict[str, Any] = {"conditions": [reserved]}
    if held:
        status["admission"] = {"clusterQueue": "q", "podSetAssignments": [usage]}
    json = {
        "metadata": {
            "name": f"w-{jobset}",
            "namespace": "team",
            "ownerReferences": [{"kind": "JobSet", "name": jobset}],
        },
        "spec": {"podSets": [{"count": slices * pool.shape.hosts, "template": {"spec": pod}}]},
        "status": status,
    }
    return typed(json, WORKLOAD)


def test_slices_of_many_hosts_are_node_pools_and_of_one_host_nodes() -> None:
    large, small = supplies(parsed_nodes(hosts()), (), FLAVORS)
    assert (large.tpu_type, large.total, large.free) == ("v6e-16", 2, 2)
    assert (small.tpu_type, small.total, small.free) == ("v6e-4", 3, 3)


def test_cordoned_unready_and_incomplete_slices_are_unavailable() -> None:
    nodes_of_pool = hosts()
    nodes_of_pool[0]["spec"]["unschedulable"] = True
    assert supplies(parsed_nodes(nodes_of_pool), (), FLAVORS)[0].unavailable == ("xsft-v6e-16-np-0",)
    nodes_of_pool[4]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    (large, _) = supplies(parsed_nodes(nodes_of_pool), (), FLAVORS)
    assert (large.unavailable, large.free) == (("xsft-v6e-16-np-0", "xsft-v6e-16-np-1"), 0)
    assert supplies(parsed_nodes(hosts()[1:]), (), FLAVORS)[0].unavailable == ("xsft-v6e-16-np-0",)


def test_workloads_hold_and_wait_for_slices() -> None:
    large, small = POOLS
    workloads = (
        workload("a", large, 1, held=True),
        workload("b", large, 2, held=False),
        workload("c", small, 3, held=True),
    )
    of_large, of_small = supplies(parsed_nodes(hosts()), workloads, FLAVORS)
    assert of_large.users == (
        SliceUser(jobset="a", namespace="team", slices=1, state="holds"),
        SliceUser(jobset="b", namespace="team", slices=2, state="waits"),
    )
    assert (of_large.free, of_large.in_use, of_large.queued) == (1, 1, 2)
    assert (of_small.free, of_small.in_use, of_small.queued) == (0, 3, 0)


def test_a_type_without_nodes_is_listed_if_a_run_waits_for_it() -> None:
    waiting = workload("b", Slices(tpu_type="v6e-256", count=1), 1, held=False)
    assert supplies((), (waiting,), {}) == (
        TpuSupply(
            tpu_type="v6e-256", total=0, users=(SliceUser(jobset="b", namespace="team", slices=1, state="waits"),)
        ),
    )


def test_a_node_of_another_shape_is_left_out_and_a_null_is_no_value() -> None:
    odd = {"metadata": {"name": "odd"}, "spec": {"unschedulable": "yes"}}
    plain = {"metadata": {"name": "plain", "labels": None}, "spec": {"unschedulable": None, "taints": None}}
    cluster = Cluster(Answers((200, {"items": [odd, plain]})).api)
    assert cluster.tpu_nodes() == parsed_nodes([{"metadata": {"name": "plain"}}])


def test_every_tpu_type_is_found_by_its_node_labels() -> None:
    for name in tpu_types():
        shape = parse_tpu_type(name)
        assert slice_of(shape.accelerator_label, shape.topology) == shape
    assert slice_of("tpu-v6e-slice", "256") is None
    assert slice_of("nvidia", "2x2") is None
