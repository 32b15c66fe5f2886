"""The arguments of `xsft sample`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json

EPILOG = (
    "RUN is a run of this machine. The prompt gets the chat template of the training; each token is the most likely"
    " one (greedy), so the same call gives the same answer. MaxText itself answers, in its environment"
    " (`xsft setup maxtext`), which takes some 20 s before the first token; there is no key-value cache, so long"
    " answers of large models take long."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("run", type=a_name, metavar="RUN", help="a run of this machine with a checkpoint")
    parser.add_argument(
        "--prompt", action="append", required=True, metavar="TEXT", help="the user's turn; may be given several times"
    )
    parser.add_argument("--base", action="store_true", help="print the answer of the weights before the training too")
    parser.add_argument("--step", type=_count, metavar="N", help="the checkpoint of this step (default: the newest)")
    parser.add_argument(
        "--max-new-tokens", type=_count, default=128, metavar="N", help="maximum tokens of an answer (default: 128)"
    )
    add_json(parser)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:10]) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
