"""A server that could not run is refused before the training."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.factory import GOOD, ids, problems, spec
from xsft.checks.serving import check

IMAGE = f"vllm/vllm-tpu@sha256:{'0' * 64}"
LLAMA = {"name": "llama3.1-70b", "tokenizer": "meta-llama/Llama-3.1-70B", "checkpoint": "gs://my-bucket/l/0/items"}
DEEPSEEK = {**LLAMA, "name": "deepseek3-671b"}


def served(export: Any = None, /, **serve: Any) -> dict[str, Any]:
    return {"export": export or {}, "serve": {"image": IMAGE, **serve}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"stages": {}}, set()),
        ({"stages": served()}, set()),
        ({"stages": {"serve": {"image": IMAGE}}}, set()),
        ({"stages": {"serve": {}}}, {"serve-image-missing"}),
        ({"stages": served(image="vllm/vllm-tpu:v0.11.0")}, {"serve-image-not-pinned"}),
        ({"stages": served({"what": "merged"})}, set()),
        ({"stages": served({"what": "adapters"})}, {"serve-adapters"}),
        ({"stages": served(), "model": LLAMA}, set()),
        ({"stages": served(type="v6e-1"), "model": LLAMA}, {"serve-too-large"}),
        ({"stages": served(), "model": DEEPSEEK}, {"serve-too-large"}),
        ({"stages": served(max_model_len=131_072)}, {"serve-length"}),
        ({"stages": served(), "name": "a" * 32}, set()),
        ({"stages": served(), "name": "a" * 33}, {"serve-name"}),
        ({"stages": served(), "overrides": {"maxtext": {"base_emb_dim": "wide"}}}, set()),
        ({"stages": served(), "model": {**GOOD["model"], "name": "mine"}}, {"serve-size"}),
    ],
    ids=[
        "no stages",
        "exported and served",
        "served only",
        "no image",
        "tag without digest",
        "merged export",
        "adapters",
        "large model on default machine",
        "large model on one chip",
        "largest model",
        "too long context",
        "longest name",
        "name too long",
        "unreadable override",
        "unknown model",
    ],
)
def test_server_must_fit_its_machine_and_be_pinned(changes: dict[str, Any], expected: set[str]) -> None:
    assert ids(check, spec(**changes)) == expected
    assert ids(check, spec(**changes, target="local")) == expected & {"serve-adapters"}


@pytest.mark.parametrize(
    ("evaluate", "expected"),
    [
        ({}, "evaluate-nothing"),
        ({"prompts": ["Hello"]}, "evaluate-not-judged"),
        ({"prompts": ["Hello"], "max_eval_loss": 1.0}, "evaluate-split"),
        ({"prompts": ["Hello"], "require": [{"prompt": 1, "matches": "."}]}, "evaluate-prompt"),
    ],
)
def test_evaluation_stage_must_have_something_to_compare(evaluate: dict[str, Any], expected: str) -> None:
    assert ids(check, spec(stages={"evaluate": evaluate})) == {expected}


def test_legacy_release_refuses_stages_after_the_training() -> None:
    stages = {**served(), "evaluate": {"prompts": ["Hello"], "require": [{"prompt": 0, "matches": "."}]}}
    legacy = spec(stages=stages, image={"maxtext": "0.1.0"})
    assert ids(check, legacy) >= {"evaluate-legacy", "export-legacy", "serve-legacy"}
    assert ids(check, spec(stages=stages)) == set()


def test_fix_names_a_machine_that_holds_the_model() -> None:
    (reported,) = problems(check, spec(stages=served(type="v6e-1"), model=LLAMA))
    assert reported.fix == "Write stages.serve.type: v6e-8 (ct6e-standard-8t)."
    (reported,) = problems(check, spec(stages=served(type="gpu"), model=DEEPSEEK))
    assert "LeaderWorkerSet" in reported.fix


@pytest.mark.parametrize(
    ("changes", "severity", "where"),
    [
        ({"stages": {"export": {}}}, "error", "stages.export"),
        ({"stages": {"serve": {}}, "target": "local"}, "error", "stages.serve"),
        ({}, "warning", "model.name"),
    ],
)
def test_model_that_the_release_cannot_export_is_reported(changes: dict[str, Any], severity: str, where: str) -> None:
    olmo = {"name": "olmo3-7b", "tokenizer": "allenai/Olmo-3-7B-Instruct", "checkpoint": "gs://my-bucket/o/0/items"}
    (reported,) = [problem for problem in problems(check, spec(model=olmo, **changes)) if problem.id == "export-model"]
    assert (reported.severity, reported.where) == (severity, where)


def test_engine_that_cannot_load_an_export_is_told_before_the_training() -> None:
    model_section = {"name": "gpt-oss-20b", "tokenizer": "openai/gpt-oss-20b", "checkpoint": "gs://my-bucket/g/0/items"}
    compared = spec(target="local", model=model_section, stages={"export": {"verify": "logits"}})
    (reported,) = problems(check, compared)
    assert (reported.id, reported.where) == ("engine-model-unknown", "stages.export.verify")
    assert "MXFP4" in reported.message
    assert ids(check, spec(target="local", model=model_section, stages={"export": {}})) == set()
