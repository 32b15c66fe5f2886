"""Errors of MaxText's pipeline about files that it cannot read, in words that name the next step."""

from __future__ import annotations

import pytest

from xsft.data.refusals import data_refused


@pytest.mark.parametrize(
    ("message", "id", "words"),
    [
        ("StopIteration: ", "data-empty", "no rows"),
        (
            "ValueError: Column name ['messages'] not in the dataset. Columns in the dataset: []",
            "data-empty",
            "no rows",
        ),
        (
            "ValueError: Column name ['messages'] not in the dataset. Columns in the dataset: ['text']",
            "data-refused",
            "'text'",
        ),
        ("TypeError: 'NoneType' object is not subscriptable", "data-unreadable", "one JSON array"),
        (
            "ValueError: Couldn't instantiate the backend tokenizer from one of: \n(1) a file",
            "tokenizer-unreadable",
            "cannot be loaded",
        ),
        ("FileNotFoundError: Unable to find 'a'", "data-unreadable", "Unable to find"),
    ],
)
def test_errors_of_maxtexts_pipeline_become_problems_with_a_fix(message: str, id: str, words: str) -> None:
    problem = data_refused(message)
    assert problem.id == id
    assert words in problem.message
    assert problem.fix
