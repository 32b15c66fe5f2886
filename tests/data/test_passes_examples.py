from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.data.passes import TokenSequence, Vocabulary, pieces, spans


def sequence(trained: list[bool], *, last: int | None = None) -> TokenSequence:
    ids = tuple(range(len(trained)))
    return TokenSequence(inputs=ids, trained=tuple(trained), segments=(1,) * len(ids), padding=0, last=last)


def test_token_is_trained_where_the_previous_token_predicts_it() -> None:
    token_sequence = sequence([False, True, True, False])
    assert list(token_sequence.tokens) == [(0, "masked"), (1, "masked"), (2, "trained"), (3, "trained")]
    assert token_sequence.target_text == (2, 3)


def test_target_after_the_last_input_is_shown() -> None:
    assert list(sequence([True], last=9).tokens) == [(0, "masked"), (9, "trained")]


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_pieces_are_the_tokens_in_order_and_alternate(trained: list[bool]) -> None:
    token_sequence = sequence(trained)
    found = pieces(
        token_sequence, Vocabulary(texts={token: f"{token} ".encode() for token, _part in token_sequence.tokens})
    )
    assert [(token, piece.part) for piece in found for token in piece.ids] == list(token_sequence.tokens)
    assert all(a.part != b.part for a, b in itertools.pairwise(found))
    assert "".join(piece.text for piece in found).split() == [str(token) for token, _part in token_sequence.tokens]


WORDS = Vocabulary(
    texts={0: b"hi", 1: b"<e>", 2: b"\n", 3: b"\xe2\x82", 4: b"\xac", 5: b"<x>"}, kinds={1: "EOS", 5: "special"}
)


def test_character_of_several_tokens_is_shown_whole() -> None:
    token_sequence = TokenSequence(inputs=(3, 4), trained=(False, False), segments=(1, 1), padding=0)
    assert [piece.text for piece in pieces(token_sequence, WORDS)] == ["€"]


@pytest.mark.parametrize(
    ("inputs", "trained", "end"),
    [
        ((0, 0, 1, 2), (True, True, True, False), 1),
        ((0, 0, 2), (True, True, False), None),
        ((0, 1, 0), (True, True, False), None),
        ((0, 0, 1), (True, False, False), None),
    ],
    ids=["newline after the end token", "no special token", "token before the text only", "masked"],
)
def test_end_is_the_last_trained_special_token(
    inputs: tuple[int, ...], trained: tuple[bool, ...], end: int | None
) -> None:
    token_sequence = TokenSequence(inputs=inputs, trained=trained, segments=(1,) * len(inputs), padding=1)
    assert token_sequence.end(WORDS) == end


def test_pieces_are_divided_between_packed_examples() -> None:
    token_sequence = TokenSequence(inputs=(0, 0, 0), trained=(False, False, False), segments=(1, 1, 2), padding=0)
    assert [(piece.segment, piece.ids) for piece in pieces(token_sequence, WORDS)] == [(1, (0, 0)), (2, (0,))]


def test_special_tokens_get_their_own_spans() -> None:
    token_sequence = TokenSequence(inputs=(0, 0, 1, 1, 5), trained=(False,) * 5, segments=(1,) * 5, padding=0)
    (piece,) = pieces(token_sequence, WORDS)
    assert list(spans(piece, WORDS)) == [("hihi", None), ("<e>", "EOS"), ("<e>", "EOS"), ("<x>", "special")]
