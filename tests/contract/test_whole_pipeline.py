"""The whole chain of `make pipeline`, killed on its way: every stage for real, with a tiny model, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.wholepipeline import NAME, Chain
from xsft.environments.installed import BuiltEnvironment
from xsft.machine.pid_namespace import Containment

pytestmark = pytest.mark.trainer

KILLED_AT = {
    "the record of the conversion": f"out/{NAME}-convert/xsft/run.json",
    "the record of the training": f"out/{NAME}/xsft/run.json",
    "the record of the evaluation": f"out/{NAME}-evaluate/xsft/run.json",
    "the exported weights": f"out/{NAME}-export/*/*.safetensors",
}
"""What xsft or a stage's process has just written when xsft is killed, in the order of the stages.

tests/contract/test_convert.py kills it while the converted checkpoint is written.
"""


@pytest.fixture(scope="module")
def chain(
    tmp_path_factory: pytest.TempPathFactory,
    maxtext_python: Path,
    inference_engine: BuiltEnvironment,
    private_pids: Containment,
) -> Chain:
    chain_of_stages = Chain(tmp_path_factory.mktemp("pipeline"))
    chain_of_stages.write()
    return chain_of_stages


@pytest.fixture(scope="module")
def stages(chain: Chain) -> list[dict[str, Any]]:
    """Return the stages of the call that completed, after one kill at each of these writes."""
    for pattern in KILLED_AT.values():
        chain.kill_when(pattern)
    return chain.run()


def test_the_pipeline_continues_after_each_kill(stages: list[dict[str, Any]]) -> None:
    assert [(stage["name"], stage["action"], stage["state"]) for stage in stages] == [
        ("convert", "done", "done"),
        ("train", "done", "done"),
        ("evaluate", "done", "done"),
        ("export", "attempt", "done"),
        ("serve", "skipped", None),
    ]


def test_a_second_call_repeats_no_stage(chain: Chain, stages: list[dict[str, Any]]) -> None:
    files = written(chain)
    again = chain.run()
    assert [stage["action"] for stage in again] == ["done", "done", "done", "done", "skipped"]
    assert [stage["result"] for stage in again] == [stage["result"] for stage in stages]
    assert written(chain) == files


def test_the_loss_falls_and_nearly_every_tensor_is_trained(chain: Chain, stages: list[dict[str, Any]]) -> None:
    record = json.loads((chain.folder / "out" / NAME / "xsft" / "run.json").read_text())
    by_step = [loss for _, loss in record["losses"]]
    assert by_step[-1] < by_step[0] / 10
    verification = json.loads((Path(stages[3]["result"]) / "xsft" / "export.json").read_text())["verification"]
    assert verification["changed"] >= 0.9 * verification["trained"]


def test_the_served_answer_is_the_answer_of_maxtext(chain: Chain, stages: list[dict[str, Any]]) -> None:
    report = chain.evaluation(stages)
    question, tuned = report["prompts"][0][-1]["content"], report["tuned"]["answers"][0]
    assert tuned["ended"] == "stop"
    assert chain.answer(stages[3]["result"], question) == tuned["text"]


def written(chain: Chain) -> dict[str, int]:
    """Each file below the output, and when it was changed."""
    files = (path for path in (chain.folder / "out").rglob("*") if path.is_file())
    return {str(path): path.stat().st_mtime_ns for path in files}
