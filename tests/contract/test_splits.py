"""Splits that the checks refuse are refused by MaxText's own pipeline, and those that they take are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.pipeline import Pipeline, PipelineError
from tests.stories import intent_of, spec_of, varied
from xsft.spec.base import Value

pytestmark = pytest.mark.contract

ARGV = intent_of(varied(spec_of("tiny_local"), {"train.per_device_batch_size": 1})).trainer_argv
ROW = {"messages": [{"role": "user", "content": "1 plus 2?"}, {"role": "assistant", "content": "3."}]}
EVALUATED: Mapping[str, Value] = {"eval_interval": 2, "eval_data_columns": ["messages"]}


@pytest.fixture
def files(tmp_path: Path) -> str:
    file = tmp_path / "rows.jsonl"
    file.write_text(f"{json.dumps(ROW)}\n" * 4)
    return str(file)


@pytest.mark.parametrize("split", ["train[:50%]", "train[:50%]+train", "test", "train_sft"])
def test_maxtext_refuses_a_bad_split(split: str, files: str, maxtext_pipeline: Pipeline) -> None:
    with pytest.raises(PipelineError, match="Bad split"):
        maxtext_pipeline.rows(ARGV, {"hf_train_files": files, "train_split": split})


@pytest.mark.parametrize("split", ["train", "all", "train + train"])
def test_maxtext_reads_a_good_split(split: str, files: str, maxtext_pipeline: Pipeline) -> None:
    assert maxtext_pipeline.rows(ARGV, {"hf_train_files": files, "train_split": split})


def test_files_for_evaluation_need_no_split(files: str, maxtext_pipeline: Pipeline) -> None:
    keys = {"hf_train_files": files, **EVALUATED, "hf_eval_files": files, "hf_eval_split": "test[:50%]"}
    assert maxtext_pipeline.rows(ARGV, keys)


def test_a_file_format_needs_files_for_evaluation(files: str, maxtext_pipeline: Pipeline) -> None:
    keys = {"hf_train_files": files, **EVALUATED, "hf_eval_split": "train"}
    with pytest.raises(PipelineError, match="NoneType"):
        maxtext_pipeline.rows(ARGV, keys)
    assert maxtext_pipeline.rows(ARGV, {**keys, "hf_eval_files": files})
