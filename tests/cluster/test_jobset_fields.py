"""JobSets as read: those of the golden manifests, those of plain xpk, and any JSON at all."""

from __future__ import annotations

import copy
from json import dumps as json_text
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.lenient import count, integer, mapping, rows, text, texts, whole
from xsft.cluster.answers import read_objects
from xsft.cluster.evidence import EVENT
from xsft.cluster.jobset_fields import DEPLOYMENT, JOBSET, parse_jobset
from xsft.cluster.objects import PENDING_WORKLOAD, WORKLOAD, Condition, typed
from xsft.cluster.observation import ReplicatedJob
from xsft.cluster.pod_fields import POD
from xsft.spec.yamltext import load_yaml

GOLDEN = Path(__file__).parents[1] / "golden"
MARKS = "xsft.dev/"

WORDS = """
    metadata spec status labels annotations name namespace uid replicatedJobs replicas template containers command args
    nodeSelector conditions type reason replicatedJobsStatus ready failurePolicy maxRestarts restarts ownerReferences
    containerStatuses state terminated waiting exitCode schedulingStats evictions count admission priority active
    xsft.dev/run xsft.dev/steps xsft.dev/mode jobset.sigs.k8s.io/job-index batch.kubernetes.io/job-completion-index
"""
KEYS = st.sampled_from(WORDS.split())
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | st.integers() | FLOATS | st.text(max_size=8) | st.sampled_from(["mcjax", "1"])
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4),
    max_leaves=40,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=6)


def manifest(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = load_yaml((GOLDEN / f"{name}.manifest.yaml").read_text(encoding="utf-8"))
    return loaded


def plain(name: str) -> dict[str, Any]:
    """Return a JobSet as xpk alone would have made it."""
    bare = manifest(name)
    for kind in ("labels", "annotations"):
        labels = bare["metadata"][kind]
        bare["metadata"][kind] = {k: v for k, v in labels.items() if not k.startswith(MARKS) and "managed-by" not in k}
    return bare


@pytest.mark.parametrize(
    ("jobset", "run_name", "ours"), [("one", "one", True), ("one-2", "one", True), ("odd", "odd", False)]
)
def test_a_jobset_with_a_copied_label_is_no_attempt(jobset: str, run_name: str, ours: bool) -> None:
    jobset_object = manifest("deepseek_ultrachat")
    jobset_object["metadata"]["labels"]["xsft.dev/run"] = "one"
    jobset_object["metadata"]["name"] = jobset
    run_object = parse_jobset(jobset_object)
    assert (run_object.run_name, run_object.ours) == (run_name, ours)


@pytest.mark.parametrize(("name", "mode"), [("deepseek_ultrachat", "pathways"), ("deepseek_ultrachat_mcjax", "mcjax")])
def test_a_jobset_of_xsft_is_read_back(name: str, mode: str) -> None:
    jobset_object = manifest(name)
    jobset_object["metadata"] |= {"uid": "u-1", "creationTimestamp": "2026-11-21T10:00:00Z"}
    run_object = parse_jobset(jobset_object)
    run = jobset_object["metadata"]["labels"]["xsft.dev/run"]
    assert (run_object.name, run_object.run_name, run_object.namespace, run_object.uid) == (run, run, "default", "u-1")
    assert (run_object.ours, run_object.mode, run_object.tpu, run_object.num_slices) == (True, mode, "v6e-256", 2)
    assert (run_object.steps, run_object.output, run_object.queue) == (1000, "gs://my-bucket/runs", "multislice-queue")
    assert run_object.image.startswith("us-docker.pkg.dev/my-project/xsft/post-training@sha256:")
    assert run_object.spec_digest == jobset_object["metadata"]["annotations"]["xsft.dev/spec-digest"]
    assert (run_object.max_restarts, run_object.restarts, run_object.has_status, run_object.terminal) == (
        3,
        0,
        False,
        None,
    )


def test_steps_of_an_edited_annotation_are_not_read() -> None:
    jobset_object = manifest("qwen3_gsm8k")
    jobset_object["metadata"]["annotations"]["xsft.dev/steps"] = "5"
    assert parse_jobset(jobset_object).steps == 500


@pytest.mark.parametrize(("name", "mode"), [("deepseek_ultrachat", "pathways"), ("deepseek_ultrachat_mcjax", "mcjax")])
def test_a_jobset_of_plain_xpk_is_read(name: str, mode: str) -> None:
    run_object = parse_jobset(plain(name))
    assert typed(plain(name), JOBSET).trains
    assert (run_object.ours, run_object.run_name, run_object.spec_digest) == (False, run_object.name, None)
    assert (run_object.mode, run_object.tpu, run_object.num_slices) == (mode, "v6e-256", 2)
    assert (run_object.steps, run_object.output) == (1000, "gs://my-bucket/runs")


@pytest.mark.parametrize(
    ("command", "steps"),
    [
        ("python3 -m m steps=10", 10),
        ("(exec python3 -m m 'steps=10') & wait", 10),
        ("python3 -m m steps=10; echo steps=10", 10),
        ("python3 -m m eval_steps=10 learning_rate_schedule_steps=7", None),
        ("python3 -m m steps=$STEPS", None),
        ("python3 -m m steps=10; python3 -m m steps=20", None),
        ("python3 -m m steps=1e3", None),
        ("python3 -m m steps=", None),
        ("python3 -m m", None),
    ],
)
def test_steps_are_read_from_a_command_that_names_them_once(command: str, steps: int | None) -> None:
    bare = plain("deepseek_ultrachat_mcjax")
    container = bare["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["bash", "-c", command]
    assert parse_jobset(bare).steps == steps


@pytest.mark.parametrize(
    ("accelerator", "topology", "tpu"),
    [
        ("tpu-v6e-slice", "16x16", "v6e-256"),
        ("tpu-v5p-slice", "4x4x4", "v5p-128"),
        ("tpu-v5-lite-podslice", "4x4", "v5litepod-16"),
        ("tpu-v6e-slice", "17x3", None),
        ("tpu-v6e-slice", "x" * 500, None),
        ("tpu-v99", "4x4", None),
    ],
)
def test_the_tpu_is_derived_from_the_node_selector(accelerator: str, topology: str, tpu: str | None) -> None:
    bare = plain("deepseek_ultrachat_mcjax")
    pod = bare["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["nodeSelector"] = {
        "cloud.google.com/gke-tpu-accelerator": accelerator,
        "cloud.google.com/gke-tpu-topology": topology,
    }
    assert parse_jobset(bare).tpu == tpu


def test_counts_of_jobs_are_matched_by_name_not_by_order() -> None:
    """source: infra §3.2: replicatedJobsStatus is in arbitrary order."""
    jobset_object = manifest("deepseek_ultrachat")
    jobset_object["status"] = {
        "restarts": 2,
        "terminalState": "Failed",
        "conditions": [{"type": "Failed", "status": "True", "reason": "ReachedMaxRestarts", "message": "m"}],
        "replicatedJobsStatus": [
            {"name": "worker", "ready": 1, "active": 2, "succeeded": 0, "failed": 0, "suspended": 0},
            {"name": "pathways-head", "ready": 0, "active": 0, "succeeded": 0, "failed": 1, "suspended": 0},
        ],
    }
    run_object = parse_jobset(jobset_object)
    assert run_object.jobs == (
        ReplicatedJob(name="pathways-head", replicas=1, failed=1),
        ReplicatedJob(name="worker", replicas=2, ready=1, active=2),
    )
    assert run_object.conditions == (Condition(type="Failed", status="True", reason="ReachedMaxRestarts", message="m"),)
    assert (run_object.restarts, run_object.terminal, run_object.has_status) == (2, "Failed", True)


def test_jobsets_that_train_nothing_are_distinguished() -> None:
    other = {"metadata": {"name": "web"}, "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {}}}]}}
    assert not typed(other, JOBSET).trains
    assert parse_jobset(other).mode is None
    selector = {"nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}}
    by_hand = copy.deepcopy(other)
    by_hand["spec"]["replicatedJobs"][0]["template"]["spec"] = {"template": {"spec": selector}}  # type: ignore[index]
    assert typed(by_hand, JOBSET).trains


@given(OBJECTS)
def test_an_object_of_any_shape_costs_no_other(json: dict[str, Any]) -> None:
    named = {"metadata": {"name": "odd"}, **{key: value for key, value in json.items() if key != "metadata"}}
    content = json_text({"items": [named, {"metadata": {"name": "good"}}]}, allow_nan=False).encode()
    for kind in (JOBSET, DEPLOYMENT, POD, WORKLOAD, PENDING_WORKLOAD, EVENT):
        listed = read_objects(content, kind=kind)
        assert [kube_object.metadata.name for kube_object in listed.objects][-1] == "good"
        assert len(listed.objects) + len(listed.bad) == 2
        assert all(kube_object.name == "odd" and kube_object.why for kube_object in listed.bad)


@given(JSON)
def test_objects_of_another_kind_are_not_read_as_jobsets(value: Any) -> None:
    assert mapping(value, "a", "b") == (value["a"]["b"] if _nested(value) else {})
    assert all(isinstance(row, dict) for row in rows(value))
    assert all(isinstance(item, str) for item in texts(value))
    assert text(value) in (None, value)
    assert (whole(value) or 0) == count(value)
    assert integer(value) in (None, value)


def _nested(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("a"), dict) and isinstance(value["a"].get("b"), dict)


def test_the_effect_of_a_restart_on_the_data_is_read() -> None:
    assert parse_jobset(manifest("deepseek_ultrachat")).data_on_restart == "reshuffle"
    assert parse_jobset(plain("deepseek_ultrachat")).data_on_restart is None
