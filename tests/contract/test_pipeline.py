"""The harness that tells what MaxText's input pipelines yield, held against what three rows must become."""

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
ROWS = [
    {
        "messages": [
            {"role": "user", "content": "What is 1 plus 2?"},
            {"role": "assistant", "content": "1 plus 2 is 3."},
        ]
    },
    {"messages": [{"role": "user", "content": "Which day?"}, {"role": "assistant", "content": "Sunday"}]},
    {
        "messages": [
            {"role": "user", "content": "I have apples."},
            {"role": "assistant", "content": "You have red apples."},
        ]
    },
]
TEXTS = [
    "<|user|>\nWhat is 1 plus 2?<|end|>\n<|assistant|>\n1 plus 2 is 3.<|end|>\n",
    "<|user|>\nWhich day?<|end|>\n<|assistant|>\nSunday<|end|>\n",
    "<|user|>\nI have apples.<|end|>\n<|assistant|>\nYou have red apples.<|end|>\n",
]


TARGETS = ("1 plus 2 is 3.<|end|>\n", "Sunday<|end|>\n", "You have red apples.<|end|>\n")


@pytest.fixture
def hf(tmp_path: Path) -> Mapping[str, Value]:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return {"hf_train_files": str(file)}


@pytest.fixture
def grain(tmp_path: Path, maxtext_pipeline: Pipeline) -> Mapping[str, Value]:
    file = maxtext_pipeline.parquet(ROWS, file=tmp_path / "rows.parquet")
    # Grain's pipeline would put a BOS before each prompt and answer, and an EOS after.
    no_marks = {"add_bos": False, "add_eos": False}
    return {"dataset_type": "grain", "grain_file_type": "parquet", "grain_train_files": str(file), **no_marks}


@pytest.mark.parametrize("files", ["hf", "grain"])
def test_a_row_holds_the_conversations_and_only_answers_are_trained(
    files: str, request: pytest.FixtureRequest, maxtext_pipeline: Pipeline
) -> None:
    (row,) = maxtext_pipeline.rows(ARGV, request.getfixturevalue(files))
    assert row.text == "".join(TEXTS)
    assert "".join(row.trained) == "".join(TARGETS)
    assert set(row.inputs_segmentation) == {0, 1, 2, 3}


def test_without_packing_each_conversation_is_one_row(hf: Mapping[str, Value], maxtext_pipeline: Pipeline) -> None:
    """MaxText says of padding that it is read, where its id is not 0; it is trained nowhere."""
    rows = maxtext_pipeline.rows(ARGV, {**hf, "packing": False}, batches=10)
    assert [row.text.replace("<|pad|>", "") for row in rows] == TEXTS
    assert tuple("".join(row.trained) for row in rows) == TARGETS
    assert {len(row.inputs) for row in rows} == {128}


def test_what_maxtext_refuses_raises_and_the_next_question_is_answered(
    hf: Mapping[str, Value], maxtext_pipeline: Pipeline
) -> None:
    with pytest.raises(PipelineError, match="stepz"):
        maxtext_pipeline.rows((*ARGV, "stepz=5"), hf)
    with pytest.raises(PipelineError, match=r"missing\.jsonl"):
        maxtext_pipeline.rows(ARGV, {"hf_train_files": "/nowhere/missing.jsonl"})
    assert len(maxtext_pipeline.rows(ARGV, hf)) == 1
