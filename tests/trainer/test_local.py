from __future__ import annotations

import pytest

from tests.localruns import local_plan
from xsft.trainer.local import local_env, reads_only_files


def test_shipped_data_needs_no_network() -> None:
    run = local_plan("/o").run
    assert reads_only_files(run)
    assert local_env(run)["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize(
    "changes",
    [
        {"data__hf_path": "HuggingFaceH4/ultrachat_200k"},
        {"data__hf_train_files": "gs://bucket/rows.parquet"},
        {"data__hf_train_files": "hf://datasets/a/b.jsonl"},
        {"model__tokenizer": "Qwen/Qwen3-0.6B"},
        {"model__tokenizer": None},
        {"model__checkpoint": "gs://bucket/0/items"},
        {"model__hf": {"repo": "Qwen/Qwen3-0.6B"}},
    ],
)
def test_data_from_a_hub_or_bucket_needs_network(changes: dict[str, object]) -> None:
    run = local_plan("/o", **changes).run
    assert not reads_only_files(run)
    assert local_env(run) == {"JAX_PLATFORMS": "cpu"}


@pytest.mark.parametrize("path", ["/abs/rows.jsonl", "./rows.jsonl", "../rows.jsonl"])
def test_paths_are_recognised_by_their_prefix(path: str) -> None:
    assert reads_only_files(local_plan("/o", data__hf_train_files=path).run)
