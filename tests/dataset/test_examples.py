from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from xsft.dataset.examples import TokenSequence, pieces


def sequence(trained: list[bool], *, last: int | None = None) -> TokenSequence:
    ids = tuple(range(len(trained)))
    return TokenSequence(inputs=ids, trained=tuple(trained), segments=(1,) * len(ids), padding=0, last=last)


def test_a_token_is_trained_where_the_one_before_predicts_it() -> None:
    one = sequence([False, True, True, False])
    assert list(one.tokens) == [(0, "masked"), (1, "masked"), (2, "trained"), (3, "trained")]
    assert one.target_text == (2, 3)


def test_a_target_beyond_the_cut_is_shown() -> None:
    assert list(sequence([True], last=9).tokens) == [(0, "masked"), (9, "trained")]


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_pieces_are_the_tokens_in_order_and_alternate(trained: list[bool]) -> None:
    one = sequence(trained)
    found = pieces(one, {token: f"{token} " for token, _part in one.tokens})
    assert [(token, piece.part) for piece in found for token in piece.ids] == list(one.tokens)
    assert all(a.part != b.part for a, b in itertools.pairwise(found))
    assert "".join(piece.text for piece in found).split() == [str(token) for token, _part in one.tokens]
