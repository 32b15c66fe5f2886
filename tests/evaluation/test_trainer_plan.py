from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.evaluation.factory import INPUTS
from tests.localruns import local_plan
from xsft.checks.facts import Facts
from xsft.evaluation.inputs import EvaluationInputs, EvaluationPlan, directory_of
from xsft.evaluation.report import IN_POD
from xsft.evaluation.trainer_plan import check_comparable, check_evaluation_job, evaluation_plan
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import Run, resolve
from xsft.workers.delivery import ARCHIVE, FOLDER_IN_IMAGE, pod_argv, programs_archive, programs_digest

HELD_OUT = {"data__hf_eval_files": "xsft://tiny/chat.jsonl"}
FROM = {"model__checkpoint": "/checkpoints/0/items"}
LORA = {"lora": {"rank": 8, "alpha": 16}, "train__weight_dtype": "bfloat16"}


CLUSTER: dict[str, Any] = {
    "name": "good",
    "place": {"project": "my-project", "zone": "us-east5-b", "cluster": "my-cluster", "output": "gs://my-bucket/runs"},
    "tpu": {"type": "v6e-8"},
    "image": {"ref": "us-docker.pkg.dev/my-project/xsft/train:1", "maxtext": "0.2.5"},
    "model": {"name": "qwen3-0.6b", "tokenizer": "Qwen/Qwen3-0.6B"},
    "data": {"hf_path": "HuggingFaceH4/ultrachat_200k", "train_split": "train_sft", "columns": ["messages"]},
    "train": {"steps": 100, "per_device_batch_size": 1},
}


def a_run(**changes: Any) -> Run:
    changes.setdefault("stages", {"evaluate": {}})
    return local_plan("/out", **changes).run


def planned(**changes: Any) -> EvaluationPlan:
    return evaluation_plan(a_run(**changes), digest="0" * 64)


def loads(argv: tuple[str, ...]) -> list[str]:
    return [word for word in argv if word.startswith(("load_parameters_path=", "lora.lora_restore_path="))]


def test_tuned_weights_come_from_the_last_step() -> None:
    plan = planned()
    assert plan.run_name == "tiny-local-evaluate"
    assert plan.weights == "/out/tiny-local/checkpoints/40/model_params"
    assert loads(plan.tuned_argv) == [f"load_parameters_path={plan.weights}"]
    assert loads(plan.base_argv) == []
    assert "random" in plan.base


def test_base_weights_are_the_initial_checkpoint_of_the_training() -> None:
    plan = planned(**FROM)
    assert loads(plan.base_argv) == ["load_parameters_path=/checkpoints/0/items"]
    assert loads(plan.tuned_argv) == [f"load_parameters_path={plan.weights}"]


def test_adapters_are_loaded_over_the_base() -> None:
    plan = planned(**FROM, **LORA)
    assert loads(plan.tuned_argv) == [
        "load_parameters_path=/checkpoints/0/items",
        f"lora.lora_restore_path={plan.weights}",
    ]
    assert "lora.lora_rank=8" in plan.tuned_argv
    assert not [word for word in plan.base_argv if word.startswith("lora.")]


def test_evaluation_passes_each_key_once_and_reads_the_split_in_order() -> None:
    plan = planned(**HELD_OUT, train__profiler="xplane", train__gradient_accumulation_steps=2)
    keys = [word.partition("=")[0] for word in plan.base_argv if "=" in word]
    assert len(keys) == len(set(keys))
    assert {"packing=False", "eval_interval=1", "enable_data_shuffling=False"} <= set(plan.base_argv)
    assert not {"profiler", "gradient_accumulation_steps"} & set(keys)
    assert plan.inputs.rows == 200
    assert plan.inputs.held_out["hf_eval_files"] == "xsft://tiny/chat.jsonl"
    (read,) = (word for word in plan.base_argv if word.startswith("hf_eval_files="))
    assert read.endswith("/xsft/packaged/tiny/chat.jsonl")


def test_evaluation_without_a_split_reads_no_rows() -> None:
    assert planned().inputs.rows == 0


@pytest.mark.parametrize(
    ("stage", "more", "message"),
    [
        ({}, {}, "evaluate-nothing"),
        ({"prompts": ["a"], "max_eval_loss": 1.0}, {}, "evaluate-split"),
        ({"prompts": ["a"], "require": [{"prompt": 1, "matches": "x"}]}, {}, "evaluate-prompt"),
        ({"prompts": ["a"]}, {"image": {"maxtext": "0.1.0"}}, "evaluate-legacy"),
    ],
)
def test_impossible_evaluation_is_refused(stage: dict[str, Any], more: dict[str, Any], message: str) -> None:
    (problem,) = check_evaluation_job(a_run(stages={"evaluate": stage}, **more))
    assert problem.id == message
    assert problem.fix


@pytest.mark.parametrize("stage", [{"prompts": ["a"]}, {"prompts": ["a"], "require": [{"prompt": 0, "matches": "x"}]}])
def test_possible_evaluation_has_no_problems(stage: dict[str, Any]) -> None:
    assert tuple(check_evaluation_job(a_run(stages={"evaluate": stage}))) == ()
    assert tuple(check_evaluation_job(a_run(stages={"evaluate": {}}, **HELD_OUT))) == ()


def test_prompts_without_requirements_are_a_warning() -> None:
    (problem,) = check_comparable(a_run(stages={"evaluate": {"prompts": ["a"]}}))
    assert (problem.id, problem.severity) == ("evaluate-not-judged", "warning")
    assert tuple(check_comparable(a_run(stages={"evaluate": {}}, **HELD_OUT))) == ()


@pytest.mark.parametrize(
    ("mode", "maxtext", "expected"),
    [
        ("mcjax", "0.2.5", []),
        ("pathways", "0.2.5", ["evaluate-pathways"]),
        ("mcjax", "0.2.4", ["evaluate-release"]),
        ("mcjax", "0.1.0", ["evaluate-legacy"]),
    ],
)
def test_cluster_evaluation_needs_mcjax_and_the_tested_release(mode: str, maxtext: str, expected: list[str]) -> None:
    image = {**CLUSTER["image"], "maxtext": maxtext}
    document = {**CLUSTER, "image": image, "mode": mode, "stages": {"evaluate": {"prompts": ["a"]}}}
    run, _ = resolve(WorkloadSpec.model_validate(document), Facts())
    assert [problem.id for problem in check_evaluation_job(run)] == expected


@pytest.mark.parametrize(("content", "complaint"), [(programs_archive() + b" ", "has sha256 "), (b"", "is missing")])
def test_pod_refuses_a_program_other_than_the_planned_one(tmp_path: Path, content: bytes, complaint: str) -> None:
    archive = tmp_path / ARCHIVE
    if content:
        archive.write_bytes(content)
    _, *named = pod_argv(IN_POD, {}, (), carried=programs_digest())
    argv = [word.replace(FOLDER_IN_IMAGE, str(tmp_path)) for word in named]
    done = subprocess.run((sys.executable, "-I", *argv), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert f"the plan expects sha256 {programs_digest()}" in done.stderr


@pytest.mark.parametrize("field", EvaluationInputs.__struct_fields__)
def test_each_field_changes_the_digest(field: str) -> None:
    assert replace(INPUTS, **{field: "another"}).digest != INPUTS.digest


def test_folder_name_contains_the_digest() -> None:
    directory = directory_of(INPUTS, output="/out/", run_name="tiny-evaluate")
    assert directory == f"/out/tiny-evaluate/{INPUTS.digest[:12]}"
