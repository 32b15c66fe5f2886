from __future__ import annotations

import pytest

from xsft.catalog import datasets


def test_ultrachat_has_its_columns_and_row_counts() -> None:
    dataset = datasets.dataset("HuggingFaceH4/ultrachat_200k")
    assert dataset is not None
    assert dataset.columns == ("messages",)
    assert "" in dataset.configurations
    assert (dataset.rows("train_sft"), dataset.rows("test_sft"), dataset.rows("train")) == (207_865, 23_110, None)
    assert "train_sft" in dataset.splits()


def test_gsm8k_needs_its_configuration_named() -> None:
    dataset = datasets.dataset("openai/gsm8k")
    assert dataset is not None
    assert "" not in dataset.configurations
    assert dataset.rows("train") is None
    assert (dataset.rows("train", hf_name="main"), dataset.rows("test", hf_name="main")) == (7_473, 1_319)


def test_unknown_data_set_is_none() -> None:
    assert datasets.dataset("someone/else") is None


@pytest.mark.parametrize("columns", [["messages"], ["completion", "prompt"], ("question", "answer")])
def test_columns_ok_accepts_the_columns_of_sft(columns: list[str]) -> None:
    assert datasets.columns_ok(columns)


@pytest.mark.parametrize("columns", [[], ["text"], ["prompt"], ["messages", "prompt"], ["answer"]])
def test_other_columns_need_a_formatting_function(columns: list[str]) -> None:
    assert not datasets.columns_ok(columns)


def test_every_known_data_set_offers_a_column_set_that_sft_takes() -> None:
    for path in ("HuggingFaceH4/ultrachat_200k", "openai/gsm8k"):
        dataset = datasets.dataset(path)
        assert dataset is not None
        assert datasets.columns_ok(dataset.columns)
        assert set(dataset.columns) <= set(dataset.all_columns)
