"""The examples that `xsft data show` picks; tests/contract/test_data.py reads real data through MaxText."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import pytest

from tests.data.test_findings_summary import summary
from xsft.base.errors import Refused, Unreachable, UsageError
from xsft.data import passes
from xsft.data.passes import PassAnswers, PassRead, TokenSequence, Vocabulary
from xsft.data.pipeline import parse_answers
from xsft.data.refusals import data_refused
from xsft.launch.training_data import ExamplePick, pick_examples, refuse_picture
from xsft.runs.pictures import lengths_picture
from xsft.verbs.cli import parser
from xsft.verbs.data import printable_line
from xsft.verbs.document import request_of
from xsft.verbs.weights_arguments import SAMPLE, _parse_rows

LIMIT = 4


def one(*ids: int, trained: bool = True) -> TokenSequence:
    flags = tuple(trained for _ in ids)
    return TokenSequence(inputs=ids, trained=flags, segments=(1,) * len(ids), padding=LIMIT - len(ids))


ANSWERS = PassAnswers(
    passes=(PassRead(rows=(one(1, 2), one(1, 2, 3, 4), one(2, 3, 3), one(1, 1, trained=False)), ended=True),),
    vocabulary=Vocabulary(texts={1: b"a", 2: b"b", 3: b"c", 4: b"d"}),
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
def test_options_pick_examples(options: tuple[str, ...]) -> None:
    args = parser(only="data").parse_args(("data", "show", "w.yaml", *options))
    assert [row for row, _one in pick_examples(ANSWERS, request_of(args, ExamplePick))] == PICKS[options]


def test_a_row_beyond_the_last_is_refused_with_their_number() -> None:
    last = parser(only="data").parse_args(("data", "show", "w.yaml", "--row", "0,3"))
    assert [row for row, _one in pick_examples(ANSWERS, request_of(last, ExamplePick))] == [0, 3]
    beyond = parser(only="data").parse_args(("data", "show", "w.yaml", "--row", "0,4"))
    with pytest.raises(UsageError, match="--row 4: the train split has 4 rows, numbered from 0"):
        pick_examples(ANSWERS, request_of(beyond, ExamplePick))


@pytest.mark.parametrize("text", ["", "a", "1,", "-1", "1;2", "9" * 12])
def test_an_invalid_list_of_rows_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a list of rows"):
        _parse_rows(text)


def test_an_example_is_shown_without_control_characters() -> None:
    nasty = "".join(map(chr, itertools.chain(range(32), (0x9B, 0x202E))))
    assert printable_line(nasty).isprintable()
    assert printable_line("a\nb") == "a⏎b"


@pytest.mark.parametrize(
    "words",
    [
        "ConnectionError: Couldn't reach 'org/data' on the Hub (LocalEntryNotFoundError)",
        "OfflineModeIsEnabled: Cannot reach https://huggingface.co",
        "OSError: LocalEntryNotFoundError: nothing is cached",
    ],
)
def test_a_hub_that_cannot_be_reached_is_unreachable_and_not_bad_data(words: str) -> None:
    with pytest.raises(Unreachable, match="could not fetch"):
        parse_answers({"passes": [{"ended": False, "error": words}], "vocabulary": {}})


UNREAD = {
    "StopIteration: ": "data-empty",
    "ArrowInvalid: Parquet magic bytes not found in footer.": "data-unreadable",
    "FileNotFoundError: Unable to find '/rows.jsonl'": "data-unreadable",
    "TypeError: 'NoneType' object is not subscriptable": "data-unreadable",
    "ValueError: no column messages": "data-refused",
}


@pytest.mark.parametrize("words", UNREAD)
def test_files_that_cannot_be_read_are_distinguished(words: str) -> None:
    problem = data_refused(words)
    assert problem.id == UNREAD[words]
    assert problem.fix


def test_a_long_error_of_maxtext_is_cut() -> None:
    assert len(data_refused("ValueError: " + 9000 * "a").message) < 1200


def test_the_printed_sample_has_the_reported_size() -> None:
    assert SAMPLE == passes.SAMPLE


def test_the_picture_of_lengths_is_a_png() -> None:
    drawn = lengths_picture(summary([3, 5, 40]), limit=16, title="a")
    assert drawn.startswith(b"\x89PNG")
    assert lengths_picture(summary([]), limit=16, title="a").startswith(b"\x89PNG")


def test_a_picture_overwrites_no_file(tmp_path: Path) -> None:
    path = tmp_path / "there.png"
    path.touch()
    with pytest.raises(Refused, match="does not overwrite files"):
        refuse_picture(path)
    with pytest.raises(UsageError, match="PNG"):
        refuse_picture(Path("a.svg"))
    refuse_picture(tmp_path / "new.png")
