"""The options of `xsft data prepare`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name

MOST_SHARDS = 100_000


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
