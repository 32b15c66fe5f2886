from __future__ import annotations

import json
import shlex
from typing import Any

from msgspec.structs import replace

from tests.kubeobjects import parsed, parsed_nodes
from xsft.checks.admission import UnreadFact
from xsft.checks.place_needs import ModeNeed, PlaceFacts, missing_needs, place_needs
from xsft.cluster.objects import CLUSTER_QUEUE, LOCAL_QUEUE, ClusterQueue, LocalQueue
from xsft.spec.place import PathwaysImages, Place

PLACE = Place(
    project="my-project",
    zone="us-east5-b",
    cluster="big",
    output="gs://my-bucket/runs",
    pathways=PathwaysImages(
        proxy_image="a/proxy:jax-0.11.0", server_image="a/server:jax-0.11.0", scratch="gs://my-bucket/pathways"
    ),
)
TPU_LABELS = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
    "cloud.google.com/gke-tpu-topology": "2x2",
    "cloud.google.com/gke-nodepool": "np-0",
}


def named(name: str, **parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **parts}


def local_queue(name: str) -> LocalQueue:
    return parsed(named(name, spec={"clusterQueue": "cluster-queue"}), LOCAL_QUEUE)


def cluster_queue(*covered: list[str]) -> ClusterQueue:
    groups = [{"coveredResources": resources} for resources in covered]
    return parsed(named("cluster-queue", spec={"resourceGroups": groups}), CLUSTER_QUEUE)


WHOLE = PlaceFacts(
    context="gke_my-project_us-east5-b_big",
    namespace=named("default"),
    queues=(local_queue("multislice-queue"),),
    cluster_queues=(cluster_queue(["google.com/tpu"], ["cpu", "memory"]),),
    priority_classes=(named("medium"),),
    tpu_nodes=parsed_nodes([{"metadata": {"labels": TPU_LABELS}}]),
    cpu_nodes=parsed_nodes([{"metadata": {"labels": {"cloud.google.com/gke-nodepool": "cpu-np"}}}]),
)


def lacking(facts: PlaceFacts = WHOLE, place: Place = PLACE) -> dict[str, ModeNeed]:
    return {need.id: need for need in place_needs("main", place, facts) if need.ok is False}


def test_complete_place_is_ready_for_both_modes() -> None:
    assert lacking() == {}
    assert missing_needs(place_needs("main", PLACE, WHOLE)) == {"mcjax": (), "pathways": ()}


def test_mcjax_cluster_lacks_the_head_and_gets_the_xpk_command() -> None:
    facts = replace(WHOLE, cpu_nodes=(), cluster_queues=(cluster_queue(["google.com/tpu"]),))
    needs = place_needs("main", PLACE, facts)
    assert missing_needs(needs) == {"mcjax": (), "pathways": ("head-nodes", "head-quota")}
    where = "--cluster=big --project=my-project --zone=us-east5-b"
    line = f"xpk cluster create-pathways {where} --tpu-type=TYPE --num-slices=N"
    assert {need.fix for need in needs if need.ok is False} == {line}


def test_images_and_scratch_are_needs_of_pathways_alone() -> None:
    needs = place_needs("main", PLACE.model_copy(update={"pathways": PathwaysImages()}), WHOLE)
    assert missing_needs(needs) == {"mcjax": (), "pathways": ("pathways-image-missing", "pathways-scratch-missing")}


def test_missing_objects_come_with_the_kubectl_command() -> None:
    found = lacking(replace(WHOLE, namespace=None, priority_classes=(named("high"),), queues=()))
    kubectl = ["kubectl", "--context", WHOLE.context, "create"]
    assert shlex.split(found["namespace"].fix) == [*kubectl, "namespace", "default"]
    assert shlex.split(found["priority-class"].fix) == [*kubectl, "priorityclass", "medium", "--value=500"]
    echo, queue, pipe, *command = shlex.split(found["queue"].fix)
    assert (echo, pipe, command) == ("echo", "|", [*kubectl, "-f", "-"])
    assert json.loads(queue)["spec"] == {"clusterQueue": "cluster-queue"}


def test_missing_queue_names_another_queue_of_the_namespace() -> None:
    found = lacking(replace(WHOLE, queues=(local_queue("team"),)))
    assert found["queue"].fix == "Set queue: team in places.yaml."


def test_controllers_that_are_not_installed_are_missing() -> None:
    found = lacking(replace(WHOLE, absent={"Kueue": "Kueue is not installed"}))
    assert found["kueue"].fix.startswith("xpk cluster adapt --cluster=big")
    other = lacking(
        replace(WHOLE, absent={"JobSet": "no"}),
        Place(context="lab", output="gs://my-bucket/runs", pathways=PLACE.pathways),
    )
    assert "jobset.sigs.k8s.io" in other["jobset"].fix


def test_unreadable_objects_are_unknown_and_not_missing() -> None:
    hidden = UnreadFact(why="you may not list nodes")
    needs = place_needs("main", PLACE, replace(WHOLE, tpu_nodes=hidden, cpu_nodes=hidden))
    unknown = {need.id: need.detail for need in needs if need.ok is None}
    assert unknown == dict.fromkeys(("tpu-slices", "head-nodes"), "unknown: you may not list nodes")
    assert missing_needs(needs) == {"mcjax": (), "pathways": ()}
