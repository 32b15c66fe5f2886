"""Fifty good workloads with their worlds pass without a word: no error, no warning.

Qwen's, since MaxText repeats the BOS of Gemma's and Llama's templates in every round, which is said rightly.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.factory import FLAGSHIP, GOOD, merged
from tests.checks.test_weights import full
from tests.failures.cases import CHAT, said_of
from tests.replacing import replace
from xsft.facts import DataFacts, SampledRow
from xsft.spec.model import WorkloadSpec

MODELS = {
    "qwen3-0.6b": "Qwen/Qwen3-0.6B",
    "qwen3-4b": "Qwen/Qwen3-4B",
    "qwen3-8b": "Qwen/Qwen3-8B",
    "qwen3-14b": "Qwen/Qwen3-14B",
    "qwen3-1.7b": "Qwen/Qwen3-1.7B",
}
MODES = {
    "mcjax": {"mode": "mcjax"},
    "pathways": {"mode": "pathways", "place": FLAGSHIP["place"]},
}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "long": {"train": {"max_target_length": 4096, "steps": 200}, "data": {"num_epoch": 3}},
    "two slices": {"tpu": {"num_slices": 2}, "parallelism": {"dcn": {"fsdp": 2}}, "data": {"num_epoch": 3}},
    "evaluated": {"data": {"hf_eval_split": "test_sft"}, "eval": {"interval": 100, "steps": 10}},
    "adapters": {"lora": {"rank": 16, "alpha": 32}, "train": {"weight_dtype": "bfloat16", "learning_rate": 2e-4}},
    "saving often": {"train": {"checkpoint_period": 50}},
    "keys": {"overrides": {"maxtext": {"remat_policy": "full", "adam_b2": 0.95, "warmup_steps_fraction": 0.05}}},
    "blocks": {
        "train": {"max_target_length": 2048, "steps": 300},
        "data": {"num_epoch": 3},
        "overrides": {"maxtext": {"attention": "flash", "sa_block_q": 1024, "sa_block_kv_compute": 256}},
    },
    "files": {"data": {"hf_path": "json", "hf_train_files": "gs://my-bucket/*.jsonl", "train_split": "train"}},
}


def workload(way: str, model: str, mode: str) -> WorkloadSpec:
    common = {
        "model": {"name": model, "tokenizer": MODELS[model], "checkpoint": f"gs://my-bucket/{model}/0/items"},
        "tpu": {"type": "v6e-16"},
        "data": {"num_epoch": 2},
        "secrets": {"hf_token": {"secret": "hf", "key": "token"}},
    }
    return WorkloadSpec.model_validate(merged(merged(merged(GOOD, common), MODES[mode]), WAYS[way]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", MODELS)
def test_a_good_workload_passes_without_a_word(model: str, mode: str) -> None:
    rows = tuple(SampledRow(at=f"row {n} of a.jsonl", row=CHAT) for n in range(8))
    world = replace(full(model), data=None)
    of_files = replace(world, data=DataFacts(rows=rows, counted=100_000, digest="d", content="c"))
    said = {way: said_of(workload(way, model, mode), of_files if way == "files" else world) for way in WAYS}
    assert {way: ids for way, ids in said.items() if ids} == {}


def test_there_are_fifty() -> None:
    assert len(MODELS) * len(MODES) * len(WAYS) >= 50
