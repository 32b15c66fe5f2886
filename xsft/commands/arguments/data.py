"""The arguments of `xsft data`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json, add_settings
from xsft.commands.arguments.data_prepare import add_prepare
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
