"""The arguments of `xsft data`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json, add_settings
from xsft.commands.arguments.runs import a_count

ACTIONS = {
    "show": "print whole examples as the model sees them: what is trained, what is masked",
    "inspect": "count tokens, cut and untrained examples, duplicates, roles, and how well they pack",
    "prepare": "write the rows as files that many hosts read well, once; print the data section that reads them",
}
EPILOG = (
    "Runs here, in MaxText's environment (`xsft setup maxtext`), without training, in the order of the rows. What "
    "the workload reads must be reachable from here: `--set data.hf_train_files=FILE` names a copy. Exit status "
    "2: MaxText refuses the data, or what inspect found is an error."
)
SAMPLE = 2000
"""Number of rows that are read without --all; `dataset.passes` has the same."""


MOST_SHARDS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    said = "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", choices=tuple(ACTIONS), help=said)
    parser.add_argument("file", type=a_name, metavar="FILE", help="a workload")
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--all", action="store_true", help=f"read every row, not only the first {SAMPLE:,}")
    parser.add_argument(
        "--split", choices=("train", "eval"), default="train", help="split to read (default: %(default)s)"
    )
    shown = parser.add_argument_group("for show")
    shown.add_argument("-n", type=a_count, default=3, metavar="N", help="examples to show (default: %(default)s)")
    shown.add_argument("--row", type=_rows, default=(), metavar="N,M", help="show these rows, numbered from 0")
    shown.add_argument("--longest", action="store_true", help="show the longest examples first")
    shown.add_argument("--truncated", action="store_true", help="show examples that fill max_target_length")
    shown.add_argument("--no-target", action="store_true", help="show examples without a trained token")
    shown.add_argument("--find", type=a_name, metavar="TEXT", help="show examples that contain this text")
    shown.add_argument("--packed", action="store_true", help="show whole sequences, as the run packs them")
    shown.add_argument("--tokens", action="store_true", help="show the ids of the tokens too")
    inspected = parser.add_argument_group("for inspect")
    inspected.add_argument("--png", metavar="FILE", help="draw the lengths as a picture; no file is overwritten")
    add_prepare(parser)


def _rows(text: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(one.isascii() and one.isdecimal() and len(one) < 10 for one in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} names no rows: write 3, or 3,5,8")
    return tuple(int(one) for one in numbers)


def add_prepare(parser: argparse.ArgumentParser) -> None:
    made = parser.add_argument_group("for prepare")
    made.add_argument(
        "--to", type=a_name, metavar="FOLDER", help="a folder or gs://… (default: <output>/data/<name>-<12 hex>)"
    )
    made.add_argument(
        "--columns", type=_columns, default=(), metavar="A,B", help="columns of the source (default: the workload's)"
    )
    made.add_argument(
        "--rename", type=_rename, action="append", default=[], metavar="OLD=NEW", help="rename a column (repeatable)"
    )
    made.add_argument(
        "--eval-share", type=_share, metavar="X", help="take this share of the rows for evaluation, e.g. 0.02"
    )
    made.add_argument("--shards", type=_shards, metavar="N", help="minimum number of files (default: 8 for each host)")
    made.add_argument(
        "--format",
        choices=("parquet", "arrayrecord"),
        default="parquet",
        help="arrayrecord is read with data.pipeline: grain only (default: %(default)s)",
    )
    made.add_argument(
        "--from-sharegpt", action="store_true", help="convert turns with from and value to turns with role and content"
    )
    made.add_argument("--skip-bad", action="store_true", help="leave out rows that cannot be trained on")


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} names no columns: write messages, or prompt,completion")
    return names


def _rename(text: str) -> tuple[str, str]:
    old, _, new = text.partition("=")
    if not old or not new:
        raise argparse.ArgumentTypeError(f"{text!r}: write OLD=NEW, e.g. conversations=messages")
    return old, new


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: write a number between 0 and 1, e.g. 0.02")
    return share


def _shards(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= MOST_SHARDS and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of shards: 1 to {MOST_SHARDS:,}")
    return int(text)
