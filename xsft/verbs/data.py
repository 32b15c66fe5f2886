"""`xsft data show|inspect|prepare FILE`: show what the model learns from, by MaxText's own input pipeline."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from xsft.data.examples import Piece, TokenSequence, Vocabulary, pieces
from xsft.data.passes import Split
from xsft.data.preparation import PrepareOptions, Shard
from xsft.data.summary import Lengths, Role
from xsft.importing.text import workload_yaml
from xsft.launch import training_data
from xsft.launch.data_sample import DataInspection
from xsft.launch.examples import ExamplePick, PickedExamples, inspect_examples, show_examples
from xsft.planning import api
from xsft.verbs.arguments import request_of
from xsft.verbs.data_text import prepared_lines, print_examples, summary_lines
from xsft.verbs.document import (
    Document,
    VerbDocument,
    document_of,
    print_document,
    print_lines,
    problem_documents,
    status_of,
)
from xsft.verbs.failure import print_problems
from xsft.verbs.progress import print_to_stderr, show_progress
from xsft.verbs.terminal import terminal


class SpecialToken(Document, frozen=True, kw_only=True):
    """A special token; ordinary text never contains it."""

    at: int
    """Position in `ids`."""
    kind: Literal["BOS", "EOS", "pad", "unknown", "special"]
    text: str


class DataPart(Document, frozen=True, kw_only=True):
    """Consecutive tokens of one example with the same treatment."""

    part: Literal["masked", "trained"]
    """`trained`: their prediction counts in the loss."""
    segment: int
    """Number of the example within a packed sequence, from 1."""
    text: str
    ids: tuple[int, ...]
    special: tuple[SpecialToken, ...]


class DataExample(Document, frozen=True, kw_only=True):
    """One sequence as the model reads it."""

    row: int
    """Row number from 0, in the order of the data; with --packed the number of the packed sequence."""
    tokens: int
    """Number of tokens, without padding."""
    trained: int
    padding: int
    cut: bool
    """Whether the example fills max_target_length, so that text may have been cut."""
    end: str | None
    """The last trained special token, after the answer; if null, the model does not learn to stop."""
    parts: tuple[DataPart, ...]


class DataDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.data/1"):
    """`xsft data show|inspect FILE --json`. For `show`, all counts are null."""

    action: Literal["show", "inspect"]
    split: Literal["train", "eval"]
    examples: tuple[DataExample, ...] | None = None
    """The examples that are shown; null for `inspect`."""
    rows: int | None = None
    """Rows of the whole split; null if only a sample was read and the workload gives no number."""
    sampled: int | None = None
    """Number of rows that were read from the beginning of the split; other counts are for these rows, unless stated."""
    everything: bool | None = None
    """Whether the sample is the whole split."""
    tokens: Lengths | None = None
    truncated: float | None = None
    """Share of examples that are longer than max_target_length, 0 to 1."""
    no_target: float | None = None
    """Share of examples without a trained token."""
    no_end: float | None = None
    """Share of uncut examples whose last trained token is not a special token."""
    trained: float | None = None
    """Share of trained tokens among those that are read."""
    duplicates: int | None = None
    """Rows that equal an earlier row of the sample; those without a trained token do not count."""
    in_other: int | None = None
    """Examples whose trained tokens equal those of an example of the other split; null if the workload has no other
    split."""
    whole_in_other: int | None = None
    """Rows that equal a row of the other split."""
    other_sampled: int | None = None
    """Rows of the other split that were read."""
    roles: tuple[Role, ...] | None = None
    packing: float | None = None
    """Share of positions of packed sequences that are tokens; null if the run does not pack."""
    packed_sequences: int | None = None
    """Number of packed sequences from which `packing` is computed."""
    steps_per_epoch: float | None = None
    """Steps of one pass over the data; null if the number of rows is unknown, estimated from the sample unless it is
    the whole split."""
    epochs: float | None = None
    """Passes over the data that train.steps needs."""
    histogram: tuple[tuple[int, int], ...] | None = None
    """[upper bound of the length, examples]."""
    beyond_vocabulary: int | None = None
    """Examples with a token for which the model has no row."""
    picture: str | None = None
    """Path of the file of --png."""


class PrepareDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.data-prepare/1"):
    """`xsft data prepare FILE --json`."""

    to: str
    """Folder of the data set, with `prepared.json`."""
    found: bool
    """Whether the data set existed; if so, nothing was written."""
    attempt: str
    """Folder of the shards, below `to`."""
    format: Literal["parquet", "arrayrecord"]
    columns: tuple[str, ...]
    eval_columns: tuple[str, ...]
    rows: dict[Split, int]
    refused: int
    """Rows that were left out because of --skip-bad."""
    shards: tuple[Shard, ...]
    data: dict[str, Any]
    """The workload's `data` section that reads these files."""


def run(args: argparse.Namespace) -> int:
    workload = api.load(args.file, settings=args.settings)
    match args.action:
        case "show":
            return _show_examples(workload, args)
        case "prepare":
            return _prepare_data(workload, args)
        case _:
            return _inspect(workload, args)


def _show_examples(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    picked = show_examples(workload, request_of(args, ExamplePick), listener=terminal())
    if args.json:
        print_document(_examples_document(picked, split=args.split))
        return status_of(picked.problems)
    noun = "sequence" if args.packed else "example"
    print_examples(picked.examples, picked.answers.vocabulary, noun=noun, with_ids=args.tokens)
    if not picked.examples:
        print_lines((f"none of the {len(picked.answers.passes[0].rows):,} {noun}s read matches",))
    print_problems(picked.problems)
    return status_of(picked.problems)


def _examples_document(picked: PickedExamples, *, split: Split) -> DataDocument:
    vocabulary = picked.answers.vocabulary
    examples = tuple(_example_fields(row, sequence, vocabulary) for row, sequence in picked.examples)
    return DataDocument(
        action="show",
        split=split,
        examples=examples,
        problems=problem_documents(picked.problems),
        exit_status=status_of(picked.problems),
    )


def _example_fields(row: int, sequence: TokenSequence, vocabulary: Vocabulary) -> DataExample:
    end = sequence.end(vocabulary)
    return DataExample(
        row=row,
        tokens=sequence.length,
        trained=sequence.trained_tokens,
        padding=sequence.padding,
        cut=not sequence.padding,
        end=None if end is None else vocabulary.text((end,)),
        parts=tuple(_part_fields(piece, vocabulary) for piece in pieces(sequence, vocabulary)),
    )


def _part_fields(piece: Piece, vocabulary: Vocabulary) -> DataPart:
    return document_of(DataPart, piece, special=tuple(_special_tokens(piece, vocabulary)))


def _special_tokens(piece: Piece, vocabulary: Vocabulary) -> Iterator[SpecialToken]:
    for position, token in enumerate(piece.ids):
        if kind := vocabulary.kinds.get(token):
            yield SpecialToken(at=position, kind=kind, text=vocabulary.text((token,)))


def _inspect(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    picture = Path(args.png) if args.png is not None else None
    inspection = inspect_examples(
        workload, split=args.split, everything=args.everything, picture=picture, listener=terminal()
    )
    document = _inspection_document(inspection, picture=picture)
    if args.json:
        print_document(document)
    else:
        print_lines(summary_lines(inspection))
        print_problems(inspection.problems)
    return document.exit_status


def _inspection_document(inspection: DataInspection, *, picture: Path | None) -> DataDocument:
    return document_of(
        DataDocument,
        inspection.summary,
        action="inspect",
        split=inspection.split,
        picture=str(picture) if picture else None,
        problems=problem_documents(inspection.problems),
        exit_status=status_of(inspection.problems),
    )


def _prepare_data(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    options = request_of(args, PrepareOptions, renames=dict(args.renames))
    with show_progress("data") as say:
        folder, section = training_data.prepare_data(workload, options, to=args.to, progress=say)
    if args.json:
        problems = problem_documents(folder.problems)
        sources = {"to": folder.to, "found": folder.found, "data": section, "problems": problems}
        sources["schema"] = "xsft.data-prepare/1"  # not that of prepared.json
        print_document(document_of(PrepareDocument, folder.prepared, **sources))
        return 0
    for line in prepared_lines(folder):
        print_to_stderr(line)
    print_problems(folder.problems)
    print_lines((workload_yaml({"data": dict(section)}).rstrip("\n"),))
    return 0
