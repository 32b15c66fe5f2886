from __future__ import annotations

from collections.abc import Sequence as Many

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.dataset.examples import TokenSequence
from xsft.dataset.findings import findings
from xsft.dataset.summary import DataSample, Summary, summarize

LIMIT = 16


def one(length: int, *, trained: int = 2, first: int = 0) -> TokenSequence:
    cut = min(length, LIMIT)
    flags = (False,) * max(0, cut - trained - 1) + (True,) * min(trained, max(0, cut - 1)) + (False,)
    ids = tuple(range(first, first + cut))
    return TokenSequence(inputs=ids, trained=flags[:cut], segments=(1,) * cut, padding=LIMIT - cut)


def summary(
    lengths: Many[int], *, rows: int | None = None, packed: Many[TokenSequence] = (), trained: int = 2
) -> Summary:
    sample = [one(length, trained=trained, first=100 * i) for i, length in enumerate(lengths)]
    return summarize(
        DataSample(
            sample=sample,
            lengths=lengths,
            looked_to=8 * LIMIT,
            packed=packed,
            limit=LIMIT,
            rows=rows,
            sequences_per_step=4,
        )
    )


@given(st.lists(st.integers(1, 200), min_size=1, max_size=50))
def test_what_holds_of_any_lengths(lengths: list[int]) -> None:
    found = summary(lengths)
    assert found.tokens is not None
    assert min(lengths) <= found.tokens.p50 <= found.tokens.p90 <= found.tokens.max == max(lengths)
    assert sum(count for _to, count in found.histogram) == len(lengths)
    assert found.truncated == sum(length > LIMIT for length in lengths) / len(lengths)
    assert found.tokens.at_least == (max(lengths) >= 8 * LIMIT)


def test_half_and_nine_tenths() -> None:
    found = summary([*range(1, 11)]).tokens
    assert found is not None
    assert (found.p50, found.p90, found.max) == (5, 9, 10)


def test_steps_of_an_epoch() -> None:
    assert summary([8] * 10, rows=100).steps_per_epoch == 25
    assert summary([8] * 10, rows=100, packed=[one(16)]).steps_per_epoch == pytest.approx(100 * 8 / 16 / 4)
    assert summary([8] * 10).steps_per_epoch is None


def test_packing_is_the_share_that_is_no_padding() -> None:
    assert summary([8], packed=[one(16), one(8)]).packing == 0.75
    assert summary([8]).packing is None


def test_duplicates_are_by_what_is_trained() -> None:
    assert summary([8, 8, 8]).duplicates == 0
    assert summary([1, 1, 8], trained=0).duplicates == 2


def ids(found: Summary) -> list[tuple[str, str]]:
    return [(p.id, p.severity) for p in findings(found, limit=LIMIT)]


def test_what_should_not_stay_so() -> None:
    assert ids(summary([8] * 9)) == []
    assert ids(summary([])) == [("data-empty", "error")]
    assert ids(summary([8] * 3, trained=0)) == [("data-no-target", "error")]
    assert ids(summary([8, 8, 40])) == [("data-truncated", "warning")]
