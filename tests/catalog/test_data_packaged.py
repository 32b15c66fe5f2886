from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.make_tiny_data import ROWS, rows_text, tokenizer_config
from xsft.catalog.data import SHIPPED, located


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_name_exists(name: str) -> None:
    path = Path(located(f"xsft://{name}"))
    assert path.is_absolute()
    assert path.exists()


@pytest.mark.parametrize("path", ["gs://bucket/a", "./a", "/a", "HuggingFaceH4/ultrachat_200k", ""])
def test_located_leaves_other_paths_unchanged(path: str) -> None:
    assert located(path) == path


@pytest.mark.parametrize("path", ["xsft://tiny/chat.json", "xsft://", "xsft://../../etc/passwd", "xsft://tiny"])
def test_unknown_shipped_name_is_unchanged(path: str) -> None:
    assert located(path) == path


def test_shipped_rows_equal_those_of_the_script() -> None:
    assert Path(located("xsft://tiny/chat.jsonl")).read_text(encoding="utf-8") == rows_text()


def test_each_row_serves_both_column_sets() -> None:
    rows = [json.loads(line) for line in rows_text().splitlines()]
    assert len(rows) == ROWS
    assert all([m["content"] for m in row["messages"]] == [row["question"], row["answer"]] for row in rows)


def test_shipped_tokenizer_is_small_and_has_a_chat_template() -> None:
    folder = Path(located("xsft://tiny/tokenizer"))
    assert json.loads((folder / "tokenizer_config.json").read_text()) == tokenizer_config()
    assert "chat_template" in tokenizer_config()
    assert sum(file.stat().st_size for file in folder.iterdir()) < 100_000
