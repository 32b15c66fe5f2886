"""The training data as JSON: examples, their figures, and prepared shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from xsft.data.examples import Piece, TokenSequence, Vocabulary, pieces
from xsft.launch.data_sample import DataInspection
from xsft.launch.examples import PickedExamples
from xsft.launch.prepare_data import PreparedFolder
from xsft.verbs.failure import problem_documents


def examples_document(found: PickedExamples, *, split: str) -> dict[str, Any]:
    """Return the document `xsft.data/1` of `data show` without its schema."""
    examples = [_example_document(row, one, found.answers.vocabulary) for row, one in found.examples]
    return {"action": "show", "split": split, "examples": examples, **_NO_SUMMARY, "problems": []}


def inspection_document(found: DataInspection, *, picture: Path | None) -> dict[str, Any]:
    """Return the document `xsft.data/1` of `data inspect` without its schema."""
    figures = {**to_builtins(found.summary), "picture": str(picture) if picture else None}
    problems = problem_documents(found.problems)
    return {"action": "inspect", "split": found.split, "examples": None, **figures, "problems": problems}


def prepared_document(made: PreparedFolder, section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document `xsft.data-prepare/1` without its schema."""
    fields = {name: value for name, value in to_builtins(made.prepared).items() if name not in ("schema", "address")}
    problems = problem_documents(made.problems)
    return {"to": made.to, "found": made.found, **fields, "data": section, "problems": problems}


def _example_document(row: int, one: TokenSequence, vocabulary: Vocabulary) -> dict[str, Any]:
    end = one.end(vocabulary)
    return {
        "row": row,
        "tokens": one.length,
        "trained": one.trained_tokens,
        "padding": one.padding,
        "cut": not one.padding,
        "end": None if end is None else vocabulary.text((end,)),
        "parts": [_part_document(piece, vocabulary) for piece in pieces(one, vocabulary)],
    }


def _part_document(piece: Piece, vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "part": piece.part,
        "segment": piece.segment,
        "text": piece.text,
        "ids": list(piece.ids),
        "special": list(_special(piece, vocabulary)),
    }


def _special(piece: Piece, vocabulary: Vocabulary) -> Iterator[dict[str, Any]]:
    for at, token in enumerate(piece.ids):
        if kind := vocabulary.kinds.get(token):
            yield {"at": at, "kind": kind, "text": vocabulary.text((token,))}


_FIGURES = (
    "rows", "sampled", "everything", "tokens", "truncated", "no_target", "no_end", "trained", "duplicates", "in_other",
    "whole_in_other", "other_sampled", "roles", "packing", "packed_sequences", "steps_per_epoch", "epochs", "histogram",
    "beyond_vocabulary",
)  # fmt: skip
_NO_SUMMARY: dict[str, Any] = dict.fromkeys((*_FIGURES, "picture"))
