"""Node labels of Kueue's topologies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.test_admission import CPU_FLAVOR, TPU_FLAVOR, facts, said
from tests.checks.test_node_pools import pools

BLOCK = "cloud.google.com/gce-topology-block"
FLAVOR = {"spec": {**TPU_FLAVOR["spec"], "topologyName": "gke"}}
TOPOLOGY = {"metadata": {"name": "gke"}, "spec": {"levels": [{"nodeLabel": BLOCK}]}}


def with_blocks(count: int) -> dict[str, Any]:
    """A world of which `count` hosts of slices have the label."""
    hosts = [node for node in pools(2) if "google.com/tpu" in node["status"]["allocatable"]]
    for node in hosts[:count]:
        node["metadata"] = {**node["metadata"], "labels": {**node["metadata"]["labels"], BLOCK: "b1"}}
    flavors = {"2xv6e-256": FLAVOR, "cpu-user": CPU_FLAVOR}
    return {"selected": {"worker": tuple(hosts)}, "flavors": flavors, "topologies": {"gke": TOPOLOGY}}


@pytest.mark.parametrize(("labelled", "count"), [(128, 0), (64, 1), (0, 1)])
def test_nodes_without_the_labels_of_a_level_are_reported(labelled: int, count: int) -> None:
    found = said(facts(**with_blocks(labelled)))
    assert [p.id for p in found] == ["topology-labels"] * count
    assert all(f"{labelled} of 128 nodes" in p.message and BLOCK in p.fix for p in found)


def test_flavor_without_a_known_topology_is_not_checked() -> None:
    assert said(facts(**{**with_blocks(0), "topologies": {}})) == ()
