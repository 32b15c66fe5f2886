from __future__ import annotations

from collections.abc import Sequence as Many

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.data.examples import TokenSequence, Vocabulary
from xsft.data.findings import findings
from xsft.data.passes import LOOK_AHEAD, InspectionResult, PassRead, ReadSettings, Turn
from xsft.data.summary import Role, Summary, summarize

LIMIT = 16


def one(length: int, *, trained: int = 2, first: int = 0) -> TokenSequence:
    cut = min(length, LIMIT)
    flags = (False,) * max(0, cut - trained - 1) + (True,) * min(trained, max(0, cut - 1)) + (False,)
    ids = tuple(range(first, first + cut))
    return TokenSequence(inputs=ids, trained=flags[:cut], segments=(1,) * cut, padding=LIMIT - cut)


WORDS = Vocabulary(texts=dict.fromkeys(range(10000), b"a"))


def summary(
    lengths: Many[int],
    *,
    rows: int | None = None,
    packed: Many[TokenSequence] = (),
    trained: int = 2,
    vocabulary: Vocabulary = WORDS,
    turns: Many[Many[Turn]] = (),
    other: Many[TokenSequence] | None = None,
) -> Summary:
    sample = tuple(one(length, trained=trained, first=100 * i) for i, length in enumerate(lengths))
    found = InspectionResult(
        sample=PassRead(rows=sample, turns=tuple(map(tuple, turns)), ended=rows == len(sample)),
        uncut=PassRead(lengths=tuple(lengths), ended=False),
        packed=PassRead(rows=tuple(packed), ended=True) if packed else None,
        other=None if other is None else PassRead(rows=tuple(other), ended=True),
    )
    return summarize(found, reading=reading(rows=rows), vocabulary=vocabulary)


def reading(*, rows: int | None = None, steps: int = 10) -> ReadSettings:
    return ReadSettings(limit=LIMIT, packs=True, sequences_per_step=4, steps=steps, epochs=1, rows=rows)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=50))
def test_summary_of_any_lengths_is_consistent(lengths: list[int]) -> None:
    found = summary(lengths)
    assert found.tokens is not None
    assert min(lengths) <= found.tokens.p50 <= found.tokens.p90 <= found.tokens.max == max(lengths)
    assert sum(count for _to, count in found.histogram) == len(lengths)
    assert found.truncated == sum(length > LIMIT for length in lengths) / len(lengths)
    assert found.tokens.at_least == (max(lengths) >= LOOK_AHEAD * LIMIT)


def test_summary_gives_median_90th_percentile_and_maximum() -> None:
    found = summary([*range(1, 11)]).tokens
    assert found is not None
    assert (found.p50, found.p90, found.max) == (5, 9, 10)


def test_steps_per_epoch_follow_from_rows_and_packing() -> None:
    assert summary([8] * 10, rows=100).steps_per_epoch == 25
    assert summary([8] * 10, rows=100, packed=[one(16)]).steps_per_epoch == pytest.approx(100 * 8 / 16 / 4)
    assert summary([8] * 10).steps_per_epoch is None


def test_packing_is_the_share_without_padding() -> None:
    assert summary([8], packed=[one(16), one(8)]).packing == 0.75
    assert summary([8]).packing is None


def test_duplicates_are_counted_by_inputs_and_trained_tokens() -> None:
    assert summary([8, 8, 8]).duplicates == 0
    assert summary([1, 1, 8], trained=0).duplicates == 2


def test_summary_counts_examples_that_the_other_split_holds() -> None:
    other = [one(8, first=0), one(9, first=1), one(8, trained=0)]
    found = summary([8, 8], other=other)
    assert (found.in_other, found.whole_in_other, found.other_sampled) == (1, 1, 3)
    assert summary([8]).in_other is None


def test_roles_are_counted() -> None:
    turns = [[said("user"), said("assistant")], [said("user", written=False), said("assistant", empty=True)]]
    assert summary([8, 8], turns=turns).roles == (
        Role(role="user", turns=2, empty=0, dropped=1),
        Role(role="assistant", turns=2, empty=1, dropped=0),
    )


def said(role: str, *, empty: bool = False, written: bool = True) -> Turn:
    return Turn(role=role, empty=empty, written=written)


def test_summary_counts_tokens_beyond_the_vocabulary() -> None:
    few = Vocabulary(texts=WORDS.texts, rows=150)
    assert summary([8, 8, 8], vocabulary=few).beyond_vocabulary == 1


def ids(found: Summary, *, steps: int = 1) -> list[tuple[str, str]]:
    return [(p.id, p.severity) for p in findings(found, reading=reading(steps=steps))]


ENDED = Vocabulary(texts=WORDS.texts, kinds=dict.fromkeys(range(10_000), "special"))


def test_summary_problems_have_their_id_and_severity() -> None:
    assert ids(summary([8] * 9, vocabulary=ENDED)) == []
    assert ids(summary([])) == [("data-empty", "error")]
    assert ids(summary([8] * 3, trained=0)) == [("data-no-target", "error")]
    assert ids(summary([8, 8, 40], vocabulary=ENDED)) == [("data-truncated", "warning")]
    assert ids(summary([40], vocabulary=ENDED)) == [("data-truncated", "error")]
    assert ids(summary([8])) == [("data-no-end", "warning")]
    assert ids(summary([8] * 8, rows=8, vocabulary=ENDED), steps=3) == [("data-steps", "warning")]
    assert ids(summary([8] * 8, rows=8, vocabulary=ENDED), steps=2) == []
    few = Vocabulary(texts=WORDS.texts, kinds=ENDED.kinds, rows=1)
    assert ids(summary([8], vocabulary=few)) == [("data-vocabulary", "error")]
    assert ids(summary([8], vocabulary=ENDED, other=[one(8)])) == [("data-leak", "warning")]


@pytest.mark.parametrize(
    ("turn", "found"),
    [
        (said("tool", written=False), ["data-role-dropped"]),
        (said("user", empty=True), ["data-empty-turn"]),
        (said("system", empty=True), []),
        (said("user"), []),
    ],
    ids=["dropped", "empty", "an empty system message", "written"],
)
def test_dropped_roles_and_empty_turns_are_problems(turn: Turn, found: list[str]) -> None:
    assert [one for one, _severity in ids(summary([8], vocabulary=ENDED, turns=[[turn]]))] == found
