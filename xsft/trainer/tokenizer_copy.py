"""A copy of the tokenizer at a revision, or with another pad or BOS token, made on each host before the trainer. Pure.

MaxText masks every target equal to the pad id (without one: the unknown id) or to the BOS id, and has no key for
either: if one of them ends an answer, the end is never trained. It has no key for a revision of the hub either: it
loads a tokenizer by its name alone. A command line cannot carry a tokenizer (DeepSeek-V3's has 8 MB), and transformers
cannot read one from a bucket, so each host makes a copy of the tokenizer that it downloads.
source: maxtext@0.2.5 maxtext/input_pipeline/hf_data_processing.py [_get_pad_id, preprocessing_pipeline],
input_pipeline_utils.py [shift_and_refine]; the same in all releases from 0.1.0.
"""

from __future__ import annotations

from msgspec import Struct

from xsft.spec.resolve import Run

FOLDER = "/tmp/xsft-tokenizer"  # noqa: S108 - in a container, which holds one run
"""Folder of the copy on a cluster's host."""

_LINES = """\
import os, sys
from transformers import AutoTokenizer
name, pad, bos, folder = sys.argv[1:5]
tokenizer = AutoTokenizer.from_pretrained(name)
unknown = {pad, bos} - {"", *tokenizer.get_vocab()}
unknown and sys.exit(f"xsft: the tokenizer {name} has no token {unknown.pop()}")
tokenizer.pad_token = pad or tokenizer.pad_token
tokenizer.bos_token = bos or tokenizer.bos_token
tokenizer.save_pretrained(folder)
os.execv(sys.executable, [sys.executable, *sys.argv[5:]])
"""

PROGRAM = "; ".join(_LINES.splitlines())
"""Python on one line, so that the command is one line (`and` instead of `if`, which cannot follow a semicolon). It
stops if the vocabulary lacks a token, which would otherwise be added to it and have no row of the embedding. At its end
it becomes the trainer, which gets its signals."""
PINNED_PROGRAM = (
    PROGRAM.replace("folder = sys.argv[1:5]", "folder, revision = sys.argv[1:6]")
    .replace("from_pretrained(name)", "from_pretrained(name, revision=revision)")
    .replace("sys.argv[5:]", "sys.argv[6:]")
)
"""The same with a revision of the hub as fifth argument."""


class TokenizerCopy(Struct, frozen=True, kw_only=True):
    """A tokenizer to copy, and the tokens that replace its own; empty: its own."""

    tokenizer: str
    revision: str | None = None
    """Commit, tag or branch on the hub; None: its default branch, or a folder."""
    pad_token: str = ""
    bos_token: str = ""


def copy_of(run: Run) -> str | None:
    """Return the folder of the copy; None if the tokenizer is used unchanged."""
    if copying_of(run) is None:
        return None
    return f"{run.output}/{run.run_name}/tokenizer" if run.spec.on_this_machine else FOLDER


def copy_arguments(run: Run) -> tuple[str, ...]:
    """Return the arguments between `python3` and the trainer's `-m`; none if the tokenizer is used unchanged."""
    copy, folder = copying_of(run), copy_of(run)
    return copying_words(copy, folder=folder) if copy and folder else ()


def copying_words(copy: TokenizerCopy, *, folder: str) -> tuple[str, ...]:
    """Return the arguments between `python3` and `-m` that copy a tokenizer into `folder`."""
    words = (copy.tokenizer, copy.pad_token, copy.bos_token, folder)
    if copy.revision is None:
        return ("-c", PROGRAM, *words)
    return ("-c", PINNED_PROGRAM, *words, copy.revision)


def split_copying(words: tuple[str, ...]) -> tuple[TokenizerCopy | None, tuple[str, ...]]:
    """Return the copied tokenizer and the remaining words after `python3`; (None, all words) if `copy_arguments` wrote
    none."""
    match words:
        case ("-c", program, name, pad, bos, _, *after) if program == PROGRAM:
            return TokenizerCopy(tokenizer=name, pad_token=pad, bos_token=bos), tuple(after)
        case ("-c", program, name, pad, bos, _, revision, *after) if program == PINNED_PROGRAM:
            return TokenizerCopy(tokenizer=name, revision=revision, pad_token=pad, bos_token=bos), tuple(after)
        case _:
            return None, words


def copying_of(run: Run) -> TokenizerCopy | None:
    """Return the tokenizer to copy; None if it is used unchanged."""
    model = run.spec.model
    if run.tokenizer is None or not (model.pad_token or model.bos_token or run.tokenizer_revision):
        return None
    return TokenizerCopy(
        tokenizer=run.located(run.tokenizer),
        revision=run.tokenizer_revision,
        pad_token=model.pad_token or "",
        bos_token=model.bos_token or "",
    )
