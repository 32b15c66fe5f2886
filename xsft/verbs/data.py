"""`xsft data show|inspect|prepare FILE`: show what the model learns from, by MaxText's own input pipeline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.text import Text

from xsft.data.findings import Lengths, Role
from xsft.data.passes import Piece, ReadSettings, Split, TokenKind, TokenSequence, Vocabulary, pieces, spans
from xsft.data.preparation import PrepareOptions, Shard
from xsft.importing.text import workload_yaml
from xsft.launch.training_data import ExamplePick, inspect_examples, prepare_data, show_examples
from xsft.planning import api
from xsft.spec.keypath import printable
from xsft.verbs.console import console
from xsft.verbs.document import (
    Document,
    VerbDocument,
    document_of,
    print_lines,
    print_to_stderr,
    problem_documents,
    report_document,
    request_of,
    show_progress,
    status_of,
)
from xsft.verbs.terminal import terminal


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
    parts: tuple[Piece, ...]


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
    vocabulary = picked.answers.vocabulary
    document = DataDocument(
        action="show",
        split=args.split,
        examples=tuple(_example_fields(row, sequence, vocabulary) for row, sequence in picked.examples),
        problems=problem_documents(picked.problems),
        exit_status=status_of(picked.problems),
    )
    noun = "sequence" if args.packed else "example"

    def draw(document: DataDocument) -> None:
        screen = console(sys.stdout)
        for example in document.examples or ():
            for line in _example_lines(example, vocabulary, noun, with_ids=args.tokens):
                screen.print(line, highlight=False, soft_wrap=True)
        if not document.examples:
            print_lines((f"none of the {len(picked.answers.passes[0].rows):,} {noun}s read matches",))

    return report_document(document, draw, as_json=args.json)


def _example_fields(row: int, sequence: TokenSequence, vocabulary: Vocabulary) -> DataExample:
    end = sequence.end(vocabulary)
    return DataExample(
        row=row,
        tokens=sequence.length,
        trained=sequence.trained_tokens,
        padding=sequence.padding,
        cut=not sequence.padding,
        end=None if end is None else vocabulary.text((end,)),
        parts=pieces(sequence, vocabulary),
    )


def _inspect(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    picture = Path(args.png) if args.png is not None else None
    inspection = inspect_examples(
        workload, split=args.split, everything=args.everything, picture=picture, listener=terminal()
    )
    document = document_of(
        DataDocument,
        inspection.summary,
        action="inspect",
        split=inspection.split,
        picture=args.png,
        problems=problem_documents(inspection.problems),
        exit_status=status_of(inspection.problems),
    )
    return report_document(document, partial(_summary_lines, reading=inspection.reading), as_json=args.json)


def _prepare_data(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    options = request_of(args, PrepareOptions, renames=dict(args.renames))
    with show_progress("data") as say:
        folder, section = prepare_data(workload, options, to=args.to, progress=say)
    document = document_of(
        PrepareDocument,
        folder.prepared,
        to=folder.to,
        found=folder.found,
        data=section,
        problems=problem_documents(folder.problems),
    )
    return report_document(document, _print_prepared, as_json=args.json)


BAR = 40
"""Characters of the longest bar."""


def _example_lines(example: DataExample, vocabulary: Vocabulary, noun: str, *, with_ids: bool) -> Iterator[Text]:
    cut = "; cut at max_target_length" if example.cut else ""
    masked = example.tokens - example.trained
    counts = f"{example.tokens} tokens, {example.trained} trained, {masked} masked, {example.padding} padding{cut}"
    yield Text(f"{noun} {example.row}: {counts}", style="bold")
    border = 0
    packed = len({piece.segment for piece in example.parts}) > 1
    for piece in example.parts:
        if packed and piece.segment != border:
            border = piece.segment
            yield Text(f"  ── example {border} of this sequence", style="bold")
        style = "green" if piece.part == "trained" else "dim"
        line = Text(f"  {piece.part:8}", style=style)
        for text, kind in spans(piece, vocabulary):
            line.append(printable_line(text), style=f"{style} reverse" if kind else style)
        yield line
        if with_ids:
            yield Text(f"          {' '.join(map(str, piece.ids))}", style="dim")
    if example.padding:
        yield Text(f"  padding {example.padding} x {_token_named(vocabulary, 'pad')}", style="dim")
    yield Text(f"  end     {_end_text(example, vocabulary)}", style="dim")


def _end_text(example: DataExample, vocabulary: Vocabulary) -> str:
    """Return a line on the special token that ends the trained text, and on the tokenizer's BOS and EOS."""
    text = "no special token is trained at the end"
    if example.end is not None:
        trained = [piece.special for piece in example.parts if piece.part == "trained" and piece.special]
        kind = trained[-1][-1].kind
        special = f" ({kind})" if kind != "special" else ""
        text = f"{printable_line(example.end)}{special} is trained at the end"
    first = example.parts[0].special[:1] if example.parts else ()
    began = "begins without BOS"
    if first and (first[0].at, first[0].kind) == (0, "BOS"):
        began = "begins with BOS"
    bos = _token_named(vocabulary, "BOS")
    eos = _token_named(vocabulary, "EOS")
    return f"{text}; {began}; the tokenizer's BOS is {bos}, its EOS {eos}"


def _token_named(vocabulary: Vocabulary, kind: TokenKind) -> str:
    return printable_line(vocabulary.named.get(kind, "none"))


def printable_line(text: str) -> str:
    """Return the text on one line, without control characters that act on the terminal."""
    return printable(text.replace("\n", "⏎").replace("\t", "⇥"))


def _summary_lines(document: DataDocument, *, reading: ReadSettings) -> Iterator[str]:
    """Yield the lines of the summary; every figure names the rows that it counts."""
    which = f"{'all' if document.everything else 'the first'} {document.sampled:,} rows"
    for label, figure, of in _figures(document, reading, which):
        yield f"{label:<11} {figure} [{of}]"
    yield f"lengths     tokens of an example before it is cut, examples [{which}]"
    histogram = document.histogram or ()
    longest = max((count for _bound, count in histogram), default=0) or 1
    for bound, count in histogram:
        yield f"{f'< {bound}':>10}  {'█' * round(BAR * count / longest)} {count}"


def _figures(document: DataDocument, reading: ReadSettings, which: str) -> Iterator[tuple[str, str, str]]:
    rows = "an unknown number of rows" if document.rows is None else f"{document.rows:,}"
    yield "rows", f"{document.sampled:,} read of {rows} in the {document.split} split", which
    if tokens := document.tokens:
        yield "tokens", f"half at most {tokens.p50}, 90 % at most {tokens.p90}, the longest {tokens.max}", which
    yield "truncated", f"{document.truncated:.1%} are longer than max_target_length {reading.limit}", which
    yield "no target", f"{document.no_target:.1%} have no trained token", which
    yield "no end", f"{document.no_end:.1%} of the uncut ones train no special token at the end", which
    yield "trained", f"{document.trained:.1%} of the tokens", which
    yield "duplicates", f"{document.duplicates:,} equal an earlier row", which
    if document.in_other is not None:
        same = f"{document.in_other:,} train the same tokens as one of the other split"
        against = f"{which} against {document.other_sampled:,} rows"
        yield "shared", f"{same}, {document.whole_in_other:,} equal it", against
    for role in document.roles or ():
        counts = f"{role.turns:,} messages, {role.empty:,} empty, {role.dropped:,} that the template drops"
        yield "role", f"{role.role}: {counts}", which
    if document.packing is not None:
        packed = f"the first {document.packed_sequences} packed sequences"
        yield "packing", f"{document.packing:.1%} of the positions are tokens", packed
    if document.steps_per_epoch is not None and document.split == "train":
        each = f"{document.steps_per_epoch:.1f} steps each"
        epochs = f"train.steps {reading.steps} is {document.epochs or 0:.2f} of them"
        yield "epochs", f"{each}: {epochs}", which if document.everything else f"estimated from {which}"


def _print_prepared(document: PrepareDocument) -> None:
    """Print the section of the workload, to be copied; what was written is no part of it, and goes to stderr."""
    print_to_stderr(f"{'found' if document.found else 'prepared'}  {document.to}/{document.attempt}")
    for split, rows in document.rows.items():
        shards = [shard for shard in document.shards if shard.split == split]
        megabytes = sum(shard.bytes for shard in shards) / 1e6
        print_to_stderr(f"{split:8}  {rows:,} rows in {len(shards)} shards of {shards[0].rows:,}, {megabytes:,.1f} MB")
    if document.refused:
        print_to_stderr(f"left out  {document.refused:,} rows that cannot be trained on")
    print_to_stderr("Replace the workload's data section by:")
    print_lines((workload_yaml({"data": document.data}).rstrip("\n"),))
