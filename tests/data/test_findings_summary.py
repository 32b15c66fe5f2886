from __future__ import annotations

from collections.abc import Sequence as Many
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from xsft.data.findings import Role, Summary, findings, summarize
from xsft.data.passes import GivenMessage, GivenRow, InspectionResult, PassRead, ReadSettings, TokenSequence, Vocabulary

LIMIT = 16


def one(length: int, *, trained: int = 2, first: int = 0) -> TokenSequence:
    cut = min(length, LIMIT)
    flags = (False,) * max(0, cut - trained - 1) + (True,) * min(trained, max(0, cut - 1)) + (False,)
    ids = tuple(range(first, first + cut))
    return TokenSequence(inputs=ids, trained=flags[:cut], segments=(1,) * cut, padding=LIMIT - cut)


WORDS = Vocabulary(texts=dict.fromkeys(range(10000), b"a"))


def row(length: int, *, question: str = "hi", messages: Many[GivenMessage] | None = None, fault: str = "") -> GivenRow:
    usual = (said("user", text=question), said("assistant"))
    return GivenRow(fault=fault, texts=("q", "yes<|end|>"), messages=tuple(messages or usual), length=length)


def inspection(
    lengths: Many[int],
    *,
    rows: int | None = None,
    packed: Many[TokenSequence] = (),
    trained: int = 2,
    given: Many[GivenRow] = (),
    other: Many[int] | None = None,
) -> InspectionResult:
    return InspectionResult(
        sample=read(lengths, trained=trained, given=given, ended=rows == len(lengths)),
        packed=PassRead(rows=tuple(packed), ended=True) if packed else None,
        other=None if other is None else read(other, trained=trained, ended=True),
    )


def read(lengths: Many[int], *, trained: int = 2, given: Many[GivenRow] = (), ended: bool) -> PassRead:
    sample = tuple(one(length, trained=trained, first=100 * index) for index, length in enumerate(lengths))
    usual = tuple(row(length, question=f"{index}, {length}") for index, length in enumerate(lengths))
    return PassRead(rows=sample, given=tuple(given) or usual, ended=ended)


def summary(lengths: Many[int], *, rows: int | None = None, vocabulary: Vocabulary = WORDS, **more: Any) -> Summary:
    return summarize(inspection(lengths, rows=rows, **more), reading=reading(rows=rows), vocabulary=vocabulary)


def reading(*, rows: int | None = None, steps: int = 10) -> ReadSettings:
    return ReadSettings(limit=LIMIT, packs=True, sequences_per_step=4, steps=steps, epochs=1, rows=rows)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=50))
def test_summary_of_any_lengths_is_consistent(lengths: list[int]) -> None:
    summary_text = summary(lengths)
    assert summary_text.tokens is not None
    assert min(lengths) <= summary_text.tokens.p50 <= summary_text.tokens.p90 <= summary_text.tokens.max == max(lengths)
    assert sum(count for _to, count in summary_text.histogram) == len(lengths)
    assert summary_text.truncated == sum(length > LIMIT for length in lengths) / len(lengths)


def test_summary_gives_median_90th_percentile_and_maximum() -> None:
    tokens = summary([*range(1, 11)]).tokens
    assert tokens is not None
    assert (tokens.p50, tokens.p90, tokens.max) == (5, 9, 10)


def test_steps_per_epoch_follow_from_rows_and_packing() -> None:
    assert summary([8] * 10, rows=100).steps_per_epoch == 25
    assert summary([8] * 10, rows=100, packed=[one(16)]).steps_per_epoch == pytest.approx(100 * 8 / 16 / 4)
    assert summary([8] * 10).steps_per_epoch is None


def test_packing_is_the_share_without_padding() -> None:
    assert summary([8], packed=[one(16), one(8)]).packing == 0.75
    assert summary([8]).packing is None


def test_duplicates_are_equal_rows_that_train_something() -> None:
    questions = [row(8, question=text) for text in ("a", "b", "a", "c")]
    assert summary([8] * 4, given=questions).duplicates == 1, "the answers are all equal"
    assert summary([8] * 4, given=questions, trained=0).duplicates == 0
    assert summary([8] * 4, given=[*questions[:2], row(8, question="a", fault="stops"), questions[3]]).duplicates == 0


def test_rows_that_the_other_split_has_are_counted() -> None:
    summary_text = summary([8, 8], other=[8, 9, 9])
    assert (summary_text.in_other, summary_text.whole_in_other, summary_text.other_sampled) == (1, 1, 3)
    assert summary([8]).in_other is None


def test_roles_are_counted() -> None:
    rows = [[said("user"), said("assistant")], [said("user", written=False), said("assistant", text="")]]
    assert summary([8, 8], given=[row(8, messages=messages) for messages in rows]).roles == (
        Role(role="user", turns=2, empty=0, dropped=1),
        Role(role="assistant", turns=2, empty=1, dropped=0),
    )


def said(role: str, *, text: str = "yes", written: bool = True, kind: str = "str") -> GivenMessage:
    return GivenMessage(role=role, text=text, kind=kind, written=written)


def test_summary_counts_tokens_beyond_the_vocabulary() -> None:
    few = Vocabulary(texts=WORDS.texts, rows=150)
    assert summary([8, 8, 8], vocabulary=few).beyond_vocabulary == 1


def ids(
    lengths: Many[int], *, steps: int = 1, vocabulary: Vocabulary | None = None, shuffles: bool = True, **more: Any
) -> list[tuple[str, str]]:
    inspection_result = inspection(lengths, **more)
    settings = replace(reading(rows=more.get("rows"), steps=steps), shuffles=shuffles)
    summary_text = summarize(inspection_result, reading=settings, vocabulary=vocabulary or ENDED)
    return [(p.id, p.severity) for p in findings(inspection_result, summary_text, reading=settings)]


ENDED = Vocabulary(texts=WORDS.texts, kinds=dict.fromkeys(range(10_000), "special"))


def test_summary_problems_have_their_id_and_severity() -> None:
    assert ids([8] * 9) == []
    assert ids([]) == [("data-empty", "error")]
    assert ids([8] * 3, trained=0) == [("data-no-target", "error")]
    assert ids([8, 8, 40]) == [("data-truncated", "warning")]
    assert ids([40]) == [("data-truncated", "error")]
    assert ids([8], vocabulary=WORDS) == [("data-no-end", "warning")]
    assert ids([8] * 8, rows=8, steps=3) == [("data-steps", "warning")]
    assert ids([8] * 8, rows=8, steps=2) == []
    assert ids([8] * 8, rows=8, steps=5) == [("data-steps", "error")]
    few = Vocabulary(texts=WORDS.texts, kinds=ENDED.kinds, rows=1)
    assert ids([8], vocabulary=few) == [("data-vocabulary", "error")]
    assert ids([8], other=[8]) == [("data-leak", "warning")]
    assert ids([8, 8], given=[row(8), row(8, fault="stops MaxText: x")]) == [("data-template", "error")]


def test_rows_in_order_are_reported_if_nothing_shuffles_them() -> None:
    rising = list(range(1, 61))
    assert ("data-sorted", "warning") not in ids([8] * 60, given=[row(length) for length in rising])
    assert ids([8] * 60, given=[row(length) for length in rising], shuffles=False)[-1] == ("data-sorted", "warning")
    labels = [
        replace(row(8), messages=(said("user"), said("assistant", text=text))) for text in "ab" for _ in range(30)
    ]
    assert ("data-sorted", "warning") in ids([8] * 60, given=labels, shuffles=False)
    assert ("data-sorted", "warning") not in ids([8] * 60, given=labels[::2] * 2, shuffles=False)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (said("tool", written=False), ["data-role-dropped"]),
        (said("user", text=""), ["data-empty-turn"]),
        (said("user", kind="NoneType"), ["data-null"]),
        (said("user", kind="list"), ["data-parts"]),
        (said("system", text=""), []),
        (said("user"), []),
    ],
    ids=["dropped", "empty", "null", "parts", "an empty system message", "written"],
)
def test_messages_that_are_not_trained_are_problems(message: GivenMessage, expected: list[str]) -> None:
    assert [name for name, _severity in ids([8], given=[row(8, messages=[message])])] == expected
