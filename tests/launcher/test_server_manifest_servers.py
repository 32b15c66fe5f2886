"""The objects of a server: what each field of the workload becomes, and what no server may have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.servers import IMAGE, NAME, WEIGHTS, run_with, server
from xsft.launcher.server_expect import audit_server
from xsft.launcher.server_manifest import ServingPlan, owned_by, vllm_argv
from xsft.spec.serving_inputs import ServingInputs

COMMIT = "0123456789" * 4


def pod(plan: ServingPlan) -> dict[str, Any]:
    return dict(plan.manifest["spec"]["template"]["spec"])


def test_the_weights_are_copied_by_the_trainings_image_and_loaded_without_a_network() -> None:
    plan = server()
    (copier,), (vllm,) = pod(plan)["initContainers"], pod(plan)["containers"]
    assert copier["image"] == run_with().spec.image.ref
    assert copier["args"] == [WEIGHTS, "/weights"]
    assert vllm["image"] == IMAGE
    assert ["vllm", *vllm["args"]] == [*vllm["command"], *vllm_argv(plan.inputs)[1:]]
    assert vllm["args"][1:3] == ["/weights", "--served-model-name=gemma2-ultrachat"]
    assert "--max-model-len=1024" in vllm["args"]
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in vllm["env"]
    assert [volume["name"] for volume in pod(plan)["volumes"]] == ["weights", "shm"]


def test_the_bucket_is_mounted_where_the_workload_asks_for_fuse() -> None:
    plan = server(weights="fuse", service_account="reader")
    assert "initContainers" not in pod(plan)
    assert plan.manifest["spec"]["template"]["metadata"]["annotations"] == {"gke-gcsfuse/volumes": "true"}
    assert pod(plan)["volumes"][0]["csi"]["volumeAttributes"]["bucketName"] == "my-bucket"
    assert pod(plan)["containers"][0]["args"][1] == "/bucket/runs/gemma2-ultrachat-export/0123456789ab"
    assert pod(plan)["serviceAccountName"] == "reader"


def test_a_token_is_a_mounted_file_and_only_for_weights_of_the_hub() -> None:
    plan = server(source=f"me/gemma-chat@{COMMIT}")
    (vllm,) = pod(plan)["containers"]
    assert vllm["args"][1:4] == ["me/gemma-chat", f"--revision={COMMIT}", f"--tokenizer-revision={COMMIT}"]
    assert "--revision" not in json.dumps(server(source="me/gemma-chat").manifest)
    env = {volume["name"]: volume["value"] for volume in vllm["env"]}
    assert env["HF_TOKEN_PATH"] == "/etc/xsft/hf-token/token"
    assert "HF_HUB_OFFLINE" not in env
    assert [volume.get("secret") for volume in pod(plan)["volumes"] if "secret" in volume] == [
        {"secretName": "hf-token", "defaultMode": 0o444}
    ]
    assert "hf-token" not in json.dumps(server().manifest)


@pytest.mark.parametrize("kind", ["tpu", "gpu"])
def test_a_server_has_no_queue_and_no_public_address(kind: str) -> None:
    plan = server(type=kind)
    text = json.dumps([plan.manifest, *plan.dependents])
    assert "kueue" not in text
    assert [dependent["spec"]["type"] for dependent in plan.dependents if dependent["kind"] == "Service"] == [
        "ClusterIP"
    ]
    shown = server(type=kind, expose="vpc").dependents[0]
    assert shown["spec"]["type"] == "LoadBalancer"
    assert shown["metadata"]["annotations"]["networking.gke.io/load-balancer-type"] == "Internal"


def test_the_probe_waits_longer_for_larger_models() -> None:
    small, large = server(), server(changes={"model.name": "llama3.1-70b"})
    waits = [
        pod(serving_plan)["containers"][0]["startupProbe"]["failureThreshold"] * 10 for serving_plan in (small, large)
    ]
    assert [serving_plan.inputs.load_s for serving_plan in (small, large)] == pytest.approx(waits, abs=10)
    assert waits[1] > waits[0] > 1800
    assert all(
        serving_plan.manifest["spec"]["progressDeadlineSeconds"] > serving_plan.inputs.load_s
        for serving_plan in (small, large)
    )


@pytest.mark.parametrize(
    "change",
    [
        {"type": "v6e-8"},
        {"max_model_len": 512},
        {"image": IMAGE.replace("0", "1")},
        {"weights": "fuse"},
        {"service_account": "reader"},
    ],
)
def test_the_audit_finds_each_field_and_its_absence(change: dict[str, Any]) -> None:
    run, plan = run_with(**change), server(**change)
    assert plan.digest != server().digest
    assert {row.outcome for row in audit_server(plan, run)} == {"landed"}
    fields = [row.field for row in audit_server(server(), run) if row.outcome in ("altered", "dropped")]
    assert f"stages.serve.{next(iter(change))}" in fields


@pytest.mark.parametrize("field", ServingInputs.__struct_fields__)
def test_each_input_changes_the_digest_of_a_server(field: str) -> None:
    inputs = server().inputs
    assert replace(inputs, **{field: "another"}).digest != inputs.digest


def test_priority_and_output_do_not_change_the_digest_of_a_server() -> None:
    assert server(changes={"priority": "high"}).digest == server().digest


def test_objects_that_a_server_owns_name_its_uid() -> None:
    (service, budget) = (owned_by(dependent, name=NAME, uid="u") for dependent in server().dependents)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME, "uid": "u"}
    assert service["metadata"]["ownerReferences"] == budget["metadata"]["ownerReferences"] == [owner]
