"""A tiny model that has memorised its data, trained once per session by the real MaxText.

def test_x(memorised: Memorised) -> None: ...
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct

from xsft.catalog.data import located
from xsft.launch.local_machine import Machine
from xsft.launch.local_run import LocalResult, run_local
from xsft.planning import api
from xsft.planning.steps import Plan

ROWS = 6
QUESTION, ANSWER = "What is 1 plus 1?", "1 plus 1 is 2."
"""The first row."""

SIZES: dict[str, Any] = {
    "override_model_config": True,
    "decoder_block": "llama2",
    "base_emb_dim": 64,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 2,
    "head_dim": 16,
    "base_mlp_dim": 128,
    "base_num_decoder_layers": 2,
    "vocab_size": 512,
    "attention": "dot_product",
    "dtype": "float32",
    "eval_interval": -1,
}


class Memorised(Struct, frozen=True, kw_only=True):
    """A finished training."""

    file: Path
    """Its workload, with an evaluate stage."""
    plan: Plan
    result: LocalResult
    machine: Machine

    @property
    def weights(self) -> Path:
        return self.result.checkpoints[-1] / "model_params"


def workload(folder: Path) -> dict[str, Any]:
    """60 steps over the first rows of the tiny data, which are the held-out rows too."""
    rows = folder / "rows.jsonl"
    rows.write_text("".join(Path(located("xsft://tiny/chat.jsonl")).read_text().splitlines(keepends=True)[:ROWS]))
    return {
        "name": "memorised",
        "target": "local",
        "model": {"name": "default", "tokenizer": "xsft://tiny/tokenizer"},
        "data": {
            "hf_path": "json",
            "hf_train_files": str(rows),
            "hf_eval_files": str(rows),
            "columns": ["messages"],
            "num_epoch": 100,
            "packing": False,
        },
        "train": {
            "steps": 60,
            "per_device_batch_size": ROWS,
            "max_target_length": 64,
            "learning_rate": 0.01,
            "checkpoint_period": 60,
            "profiler": "xplane",
        },
        "output": str(folder / "runs"),
        "overrides": {"maxtext": SIZES},
        "stages": {"evaluate": {"max_new_tokens": 24, "require": [{"prompt": 0, "matches": "is 2"}]}},
    }


@pytest.fixture(scope="session")
def memorised(warm_machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Memorised:
    folder = tmp_path_factory.mktemp("memorised")
    file = folder / "memorised.yaml"
    file.write_text(yaml.safe_dump(workload(folder)))
    (plan,) = api.plan((api.load(str(file)),))
    result = run_local(plan, machine=warm_machine, on_event=lambda _event: None)
    assert result.outcome == "completed", result.reason
    return Memorised(file=file, plan=plan, result=result, machine=warm_machine)
