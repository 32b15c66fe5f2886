"""The head of a template that MaxText repeats in every round."""

from __future__ import annotations

import pytest

from tests.checks.factory import FLAGSHIP, ids, spec
from tests.checks.test_special_tokens import DEEPSEEK
from xsft.checks.facts import Facts
from xsft.checks.rounds import check
from xsft.data.facts import DataFacts, SampledRow


@pytest.mark.parametrize("columns", [["messages"], ["question", "answer"]])
def test_repeated_text_is_reported_for_conversations_only(columns: list[str]) -> None:
    workload = spec(FLAGSHIP, data={"columns": columns})
    assert ids(check, workload) == ({"repeated-per-round"} if columns == ["messages"] else set())


def conversation(rounds: int) -> SampledRow:
    turns = [{"role": role, "content": "a"} for _ in range(rounds) for role in ("user", "assistant")]
    return SampledRow(at="row 1", row={"messages": [{"role": "system", "content": "s"}, *turns]})


@pytest.mark.parametrize(
    ("rows", "is_reported"),
    [
        ((conversation(1), conversation(1)), False),
        ((conversation(1), conversation(2)), True),
        ((SampledRow(at="row 1", row={"messages": "no list"}), SampledRow(at="row 2", row=None)), False),
    ],
    ids=["single rounds", "one row of two rounds", "no conversation"],
)
def test_repeated_text_is_reported_where_sampled_rows_have_several_rounds(
    rows: tuple[SampledRow, ...], is_reported: bool
) -> None:
    own = spec(FLAGSHIP, data={"hf_path": "json", "hf_train_files": "rows.jsonl"})
    facts = Facts(tokenizer=DEEPSEEK, data=DataFacts(rows=rows))
    assert ("repeated-per-round" in ids(check, own, facts)) == is_reported
