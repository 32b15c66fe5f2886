"""The line for a cluster, and what the audit notices. The real xpk: tests/contract/test_place_create.py."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.checks.factory import DROP, GOOD, run_of, spec
from xsft.base.errors import UsageError
from xsft.launcher.xpkcluster import EXECUTED, ClusterLine, audit_cluster, cluster_line, commands_in

CREATE = (
    "gcloud beta container clusters create my-cluster --project=my-project --region=us-east5"
    " --node-locations=us-east5-b"
)
POOL = (
    "gcloud beta container node-pools create np-0 --machine-type=MACHINE --num-nodes=2 --tpu-topology=2x4 --spot"
    ' --scopes=gke-default,"https://www.googleapis.com/auth/cloud-platform"'
)
OUTPUT = "\n".join(
    (
        f"[XPK] Task: `GKE Cluster Create` {EXECUTED[0]} ",
        CREATE,
        f"[XPK] To complete NodepoolCreate-np-0 {EXECUTED[1]}{POOL}",
        "kubectl get pods",
    )
)


def line_of(**tpu: object) -> ClusterLine:
    place = {"project": "my-project", "zone": "us-east5-b", "cluster": "my-cluster"}
    return cluster_line(run_of(spec(GOOD, mode="mcjax", place=place, tpu={"type": "v6e-8", **tpu})))


def lost(line: ClusterLine, output: str) -> dict[str, object]:
    rows = audit_cluster(line, commands_in(output.replace("MACHINE", line.shape.machine_type)))
    return {row.field: row.rendered for row in rows if row.outcome != "landed"}


def test_the_gcloud_commands_are_read_from_the_output_of_xpk() -> None:
    assert [command[:5] for command in commands_in(OUTPUT)] == [
        ("gcloud", "beta", "container", "clusters", "create"),
        ("gcloud", "beta", "container", "node-pools", "create"),
    ]


def test_an_audit_notices_every_value_that_differs() -> None:
    line = line_of(capacity="spot")
    assert lost(line, OUTPUT) == {}
    assert lost(line, OUTPUT.replace(" --spot", "")) == {"tpu.capacity": "--on-demand"}
    assert lost(line, OUTPUT.replace("2x4", "4x4")) == {"tpu.type": "4x4"}
    assert lost(line, OUTPUT.replace("=us-east5-b", "=us-east5-a")) == {"place.zone": "us-east5-a"}
    assert set(lost(line, "")) == {"place.cluster", "place.project", "place.zone", "tpu.num_slices"}
    assert lost(replace(line, pathways=True), OUTPUT) == {"mode": 0}


def test_a_reservation_is_rehearsed_with_one_slice() -> None:
    line = line_of(capacity="reservation", reservation="res", num_slices=4)
    assert line.argv[-2:] == ("--num-slices=4", "--reservation=res")
    assert line.dry_run[-3:] == ("--num-slices=1", "--reservation=res", "--dry-run")


def test_all_missing_values_of_a_cluster_are_named_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        cluster_line(run_of(spec(GOOD, mode="mcjax", place={"context": "lab", "cluster": DROP}, tpu={"type": "v6e-8"})))
    assert "project, zone and cluster" in caught.value.message
    assert "tpu.capacity is not set" in caught.value.message
