from __future__ import annotations

import pytest

from xsft.catalog import datasets


def test_ultrachat_has_its_columns_and_row_counts() -> None:
    known = datasets.dataset("HuggingFaceH4/ultrachat_200k")
    assert known is not None
    assert known.columns == ("messages",)
    assert "" in known.configurations
    assert (known.rows("train_sft"), known.rows("test_sft"), known.rows("train")) == (207_865, 23_110, None)
    assert "train_sft" in known.splits()


def test_gsm8k_needs_its_configuration_named() -> None:
    known = datasets.dataset("openai/gsm8k")
    assert known is not None
    assert "" not in known.configurations
    assert known.rows("train") is None
    assert (known.rows("train", hf_name="main"), known.rows("test", hf_name="main")) == (7_473, 1_319)


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
        known = datasets.dataset(path)
        assert known is not None
        assert datasets.columns_ok(known.columns)
        assert set(known.columns) <= set(known.all_columns)
