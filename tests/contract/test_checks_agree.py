"""MaxText refuses each configuration that the checks refuse in its name, and accepts it without that one setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.checks.factory import DROP, GOOD, run_of, spec
from tests.maxtext import Worker, ask
from xsft.catalog.models import model, names
from xsft.checks.facts import Facts
from xsft.checks.subjects import check_run
from xsft.spec.model import WorkloadSpec
from xsft.trainer.maxtext import trainer_argv

pytestmark = pytest.mark.contract


def overriding(**keys: Any) -> WorkloadSpec:
    return spec(overrides={"maxtext": keys})


def gemma(**fields: Any) -> WorkloadSpec:
    return spec(model={"name": "gemma4-e2b", "tokenizer": "google/gemma-4-E2B-it", **fields})


OWN = {"hf_path": "my-org/my-chats", "train_split": "train"}

REFUSED: Mapping[str, tuple[str, WorkloadSpec]] = {
    "unknown key": ("maxtext-key-unknown", overriding(remat_polcy="full")),
    "removed key": ("maxtext-key-unknown", overriding(enable_nnx=True)),
    "unknown nested key": ("maxtext-key-unknown", overriding(**{"lora.lora_rnk": 4})),
    "the model's own key": ("override-model-key", overriding(base_emb_dim=64)),
    "unknown model": ("model-unknown", spec(model={"name": "qwen3-06b"})),
    "unscanned model": ("scan-layers-model", gemma()),
    "two sources": ("load-full-state", overriding(load_full_state_path="gs://my-bucket/full")),
    "dpo": ("not-sft", overriding(use_dpo=True)),
    "elastic": ("refused-elastic", overriding(elastic_enabled=True)),
    "colocated data": ("refused-colocated-python", overriding(colocated_python_data_input=True)),
    "data workers": ("grain-workers", overriding(grain_worker_count=2)),
    "axis": ("mesh-axis-unknown", spec(parallelism={"ici": {"tensor_transpose": 2}})),
    "dcn on one slice": ("mesh-dcn-product", spec(parallelism={"dcn": {"fsdp": 2}})),
    "interpolation": ("override-interpolation", overriding(wandb_run_name="${nothing}")),
    "vision model with packing": (
        "multimodal-packing",
        spec(model={"name": "qwen3-vl-30b-a3b", "tokenizer": "Qwen/Qwen3-VL-30B-A3B-Instruct"}),
    ),
    "multimodal": (
        "multimodal-packing",
        spec(
            model={"name": "gemma3-4b", "tokenizer": "google/gemma-3-4b-it"},
            overrides={"maxtext": {"use_multimodal": True}},
        ),
    ),
}

TAKEN: Mapping[str, WorkloadSpec] = {
    "good": spec(),
    "scan_layers off": gemma(scan_layers=False),
    "vision model that is unscanned by itself": spec(
        model={"name": "qwen3-vl-30b-a3b", "tokenizer": "Qwen/Qwen3-VL-30B-A3B-Instruct"},
        data={"packing": False},
    ),
    "another architecture": overriding(base_emb_dim=64, override_model_config=True),
    "the model's own value": overriding(base_emb_dim=1024),
    "no weights": spec(GOOD, model={"checkpoint": DROP}),
}


MODELS = {
    name: spec(model={"name": name, "tokenizer": model(name).hf_id or "my-org/tokenizer"}, tpu={"type": "v6e-256"})
    for name in names()
}


@pytest.fixture(scope="module")
def answers(maxtext: Worker) -> dict[str, Any]:
    workloads = {**{name: workload for name, (_, workload) in REFUSED.items()}, **TAKEN, **passing(MODELS)}
    jobs = [{"trainer": trainer_argv(run_of(workload))} for workload in workloads.values()]
    return dict(zip(workloads, ask(jobs, of=maxtext), strict=True))


def passing(workloads: Mapping[str, WorkloadSpec]) -> dict[str, WorkloadSpec]:
    """Return the workloads in which the checks find no error."""
    return {
        name: workload
        for name, workload in workloads.items()
        if not any(p.severity == "error" for p in check_run(run_of(workload), Facts()))
    }


@pytest.mark.parametrize("name", REFUSED)
def test_maxtext_refuses_what_the_checks_refuse(name: str, answers: dict[str, Any]):
    expected, workload = REFUSED[name]
    assert expected in {p.id for p in check_run(run_of(workload), Facts()) if p.severity == "error"}
    assert "error" in answers[name], f"MaxText takes it: {expected} refuses too much"


@pytest.mark.parametrize("name", TAKEN)
def test_maxtext_accepts_what_the_checks_accept(name: str, answers: dict[str, Any]):
    subjects = {"maxtext-key-unknown", "override-model-key", "model-unknown", "scan-layers-model"}
    assert not subjects & {p.id for p in check_run(run_of(TAKEN[name]), Facts())}
    assert "error" not in answers[name], answers[name].get("error")


def test_every_model_that_maxtext_refuses_is_refused(answers: dict[str, Any]):
    """The reverse does not hold: checks also know what the configuration does not look at."""
    passed = passing(MODELS)
    assert len(passed) > 40
    assert {name: answers[name]["error"] for name in passed if "error" in answers[name]} == {}
