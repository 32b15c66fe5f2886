from __future__ import annotations

from typing import Any

import pytest

from tests.checks.factory import problems, spec
from xsft.base.problems import Problem
from xsft.checks import data, schedule
from xsft.checks.hub_data import check_splits as check

GSM8K = {"hf_path": "openai/gsm8k", "hf_name": "main", "columns": ["question", "answer"]}
OWN = {"hf_path": "my-org/my-chats", "train_split": "train"}
FILES = {"hf_path": "parquet", "hf_train_files": "gs://my-bucket/*.parquet", "train_split": "train"}
OWN_IMAGE = {"name": "post_training"}


def found(**changes: Any) -> dict[str, str]:
    """Id -> key path."""
    return {p.id: p.where for p in problems(check, spec(**changes))}


def test_whole_splits_have_no_problem() -> None:
    assert found(data={**GSM8K, "train_split": "train", "hf_eval_split": "test"}) == {}
    assert found(data={**FILES, "hf_eval_files": "gs://my-bucket/e/*.parquet", "hf_eval_split": "train"}) == {}
    assert found(data={**OWN, "train_split": "a.b_1", "hf_eval_split": "any"}) == {}


@pytest.mark.parametrize(
    "split", ["train[:10%]", "train[100:]", "train[:10%]+test", "train-1", "", " ", "a+", "train]"]
)
def test_split_that_is_no_name_is_refused(split: str) -> None:
    assert found(data={**OWN, "train_split": split}) == {"split-slice": "data.train_split"}
    assert found(data={**OWN, "hf_eval_split": split}) == {"split-slice": "data.hf_eval_split"}
    assert found(data={**FILES, "train_split": split}) == {"split-slice": "data.train_split"}


def test_fix_of_a_split_slice_names_the_split() -> None:
    (problem,) = problems(check, spec(data={"train_split": "train_sft[:10%]"}))
    assert (problem.severity, problem.fix.partition(";")[0]) == ("error", "Use train_sft")
    assert "Bad split: train_sft[:10%]" in problem.message


def test_files_have_only_the_split_train() -> None:
    assert found(data={**FILES, "train_split": "train_sft"}) == {"split-of-files": "data.train_split"}
    inside = {**GSM8K, "train_split": "test", "hf_train_files": "main/test-*.parquet"}
    assert found(data=inside) == {"split-of-files": "data.train_split"}


def test_split_of_evaluation_files_may_have_any_name() -> None:
    assert found(data={**FILES, "hf_eval_files": "gs://my-bucket/e/*", "hf_eval_split": "test"}) == {}


def test_unknown_split_of_a_known_data_set_is_refused() -> None:
    assert found(data={**GSM8K, "train_split": "train_sft"}) == {"dataset-split": "data.train_split"}
    assert found(data={**GSM8K, "train_split": "train", "hf_eval_split": "dev"}) == {
        "dataset-split": "data.hf_eval_split"
    }
    (problem,) = problems(check, spec(data={**GSM8K, "train_split": "train + dev"}, image=OWN_IMAGE))
    assert (problem.id, problem.message) == ("dataset-split", "openai/gsm8k has no split dev.")
    assert problem.can_be_accepted


@pytest.mark.parametrize("split", ["train+test", "train + test", "all"])
def test_joined_splits_are_refused_for_the_stock_image(split: str) -> None:
    joined = {**GSM8K, "train_split": split}
    assert found(data=joined) == {"split-joined": "data.train_split"}
    assert found(data=joined, image=OWN_IMAGE) == {}
    assert found(data=joined, target="local") == {}


def test_rows_of_joined_splits_are_added() -> None:
    train = {"steps": 1100, "per_device_batch_size": 1}
    joined = spec(data={**GSM8K, "train_split": "train+test", "packing": False}, train=train)
    (problem,) = problems(data.check_data, joined)
    assert (problem.id, "8,792" in problem.message) == ("steps-beyond-data", True)
    assert problems(data.check_data, spec(data={**GSM8K, "train_split": "all"}, train=train)) == ()


def evaluated(**changes: Any) -> tuple[Problem, ...]:
    return problems(schedule.check_schedule, spec(eval={"interval": 10, "steps": 4}, data=changes))


def test_evaluation_of_a_file_format_needs_files() -> None:
    assert evaluated() == ()
    assert evaluated(**FILES, hf_eval_files="gs://my-bucket/e/*") == ()
    (nothing,) = evaluated(**FILES, hf_eval_split="train")
    assert (nothing.id, nothing.where) == ("data-files-missing", "data.hf_eval_files")
