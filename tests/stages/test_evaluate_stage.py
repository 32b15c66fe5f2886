from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.inprocess import xsft
from tests.localruns import FakeTrainer
from tests.stages.test_train_stage import walked, written
from xsft.base.reporting import Reporter
from xsft.planning import api
from xsft.stages.train_stage import TrainHere

pytestmark = pytest.mark.loopback


@pytest.mark.parametrize(("status", "size", "id"), [(4, 0, "evaluation-untrained"), (3, 2**42, "evaluation-memory")])
def test_weights_that_are_cut_off_or_too_large_are_not_evaluated(
    tmp_path: Path, fake: FakeTrainer, status: int, size: int, id: str
) -> None:
    judged = {"prompts": ["a"], "require": [{"prompt": 0, "matches": "b"}]}
    file = written(tmp_path, stages={"evaluate": judged})
    stage = TrainHere(api.load(file), run_name="tiny", listener=Reporter(), machine=fake.machine())
    assert walked(stage).failed is None
    weights = tmp_path / "out" / "tiny" / "checkpoints" / "6" / "model_params"
    weights.mkdir(parents=True, exist_ok=True)
    (weights / "_METADATA").touch()
    os.truncate(weights / "_METADATA", size)
    if not size:
        (weights / "_METADATA").unlink()
    done = xsft("run", str(file), "--from", "evaluate")
    assert done.returncode == status
    assert f"[{id}]" in done.stderr
    assert not list((tmp_path / "out").glob("tiny-evaluate/*/evaluation.json"))
