"""Which examples `xsft data show` picks; tests/contract/test_data.py reads real data through MaxText."""

from __future__ import annotations

import argparse
import itertools

import pytest

from xsft.commands.data import _picked, _rows, _visible
from xsft.commands.verbs import parser
from xsft.dataset.examples import TokenSequence
from xsft.effects.local.data_pipeline import Answers, PassRead, _answers
from xsft.errors import SpecError, Unreachable

LIMIT = 4


def one(*ids: int, trained: bool = True) -> TokenSequence:
    flags = tuple(trained for _ in ids)
    return TokenSequence(inputs=ids, trained=flags, segments=(1,) * len(ids), padding=LIMIT - len(ids))


ANSWERS = Answers(
    passes=(PassRead(rows=(one(1, 2), one(1, 2, 3, 4), one(2, 3, 3), one(1, 1, trained=False)), ended=True),),
    texts={1: "a", 2: "b", 3: "c", 4: "d"},
)

PICKS = {
    ("-n", "2"): [0, 1],
    ("--row", "2,0"): [0, 2],
    ("--longest", "-n", "2"): [1, 2],
    ("--truncated",): [1],
    ("--no-target",): [3],
    ("--find", "bc"): [1, 2],
    ("--find", "zzz"): [],
}


@pytest.mark.parametrize("options", PICKS)
def test_examples_are_picked(options: tuple[str, ...]) -> None:
    args = parser(only="data").parse_args(("data", "show", "w.yaml", *options))
    assert [row for row, _one in _picked(ANSWERS, args, limit=LIMIT)] == PICKS[options]


@pytest.mark.parametrize("text", ["", "a", "1,", "-1", "1;2", "9" * 12])
def test_rows_that_are_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="names no rows"):
        _rows(text)


def test_nothing_drives_the_terminal() -> None:
    nasty = "".join(map(chr, itertools.chain(range(32), (0x9B, 0x202E))))
    assert _visible(nasty).isprintable()
    assert _visible("a\nb") == "a⏎b"


@pytest.mark.parametrize(
    "words",
    [
        "ConnectionError: Couldn't reach 'org/data' on the Hub (LocalEntryNotFoundError)",
        "OfflineModeIsEnabled: Cannot reach https://huggingface.co",
        "OSError: LocalEntryNotFoundError: nothing is cached",
    ],
)
def test_a_network_that_is_down_is_not_called_bad_data(words: str) -> None:
    with pytest.raises(Unreachable, match="could not fetch"):
        _answers({"error": words})


def test_data_that_is_refused_is_no_network() -> None:
    with pytest.raises(SpecError, match="refuses the data"):
        _answers({"error": "ValueError: no column messages"})
