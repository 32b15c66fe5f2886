"""`xsft run`: options, and the document. What stages do: tests/actions/pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import to_builtins

from tests.documents import read_document
from tests.hfmodels import SIZES, write_model
from tests.inprocess import xsft
from tests.localruns import FakeTrainer
from tests.stages.test_stage_list_training import training, walked, written
from xsft.verbs.submit import walk_document


@pytest.mark.loopback
def test_the_document(tmp_path: Path, fake: FakeTrainer) -> None:
    read_document("run", to_builtins(walk_document(walked(training(tmp_path, fake)))))


def test_errors_of_the_training_end_it_before_the_conversion(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    weights = {"name": "qwen3-0.6b", "tokenizer": str(tmp_path / "model"), "hf": {"repo": str(tmp_path / "model")}}
    file = written(tmp_path, model=weights, overrides={"maxtext": {**SIZES, "learning_rat": 1}})
    done = xsft("run", str(file), "--json")
    assert (done.returncode, json.loads(done.stdout)["problems"][0]["where"]) == (2, "overrides.maxtext.learning_rat")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--no-wait",), "nohup"),
        (("--no-wait", "--timeout", "5s"), "--timeout"),
        (("--from", "export", "--to", "train"), "convert, train, evaluate"),
    ],
)
def test_options_that_cannot_be_together(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    done = xsft("run", str(written(tmp_path)), *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_stage_that_the_workload_lacks_is_refused(tmp_path: Path) -> None:
    ended = xsft("run", str(written(tmp_path)), "--from", "serve")
    assert ended.returncode == 2
    assert "has no stage from serve to serve; it has train." in ended.stderr
