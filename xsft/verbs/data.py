"""`xsft data show|inspect|prepare FILE`: show what the model learns from, by MaxText's own input pipeline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.text import Text

from xsft.data.examples import Piece, TokenSequence, Vocabulary, pieces, spans
from xsft.data.passes import Split
from xsft.data.preparation import PrepareOptions, Shard
from xsft.data.summary import Lengths, Role, Summary
from xsft.importing.text import workload_yaml
from xsft.launch import training_data
from xsft.launch.data_sample import DataInspection
from xsft.launch.examples import ExamplePick, PickedExamples, inspect_examples, show_examples
from xsft.launch.prepare_data import PreparedFolder
from xsft.planning import api
from xsft.spec.keypath import printable
from xsft.verbs.console import console
from xsft.verbs.document import (
    Document,
    VerbDocument,
    document_of,
    print_document,
    print_lines,
    print_problems,
    print_to_stderr,
    problem_documents,
    request_of,
    show_progress,
    status_of,
)
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


BAR = 40
"""Characters of the longest bar."""

NumberedExample = tuple[int, TokenSequence]


def print_examples(found: Sequence[NumberedExample], vocabulary: Vocabulary, *, noun: str, with_ids: bool) -> None:
    show = partial(console(sys.stdout).print, highlight=False, soft_wrap=True)
    for row, one in found:
        for line in _example(row, one, vocabulary, noun, with_ids=with_ids):
            show(line)


def _example(row: int, one: TokenSequence, vocabulary: Vocabulary, noun: str, *, with_ids: bool) -> Iterator[Text]:
    yield Text(_head(row, one, noun), style="bold")
    border = 0
    packed = len(set(one.segments)) > 1
    for piece in pieces(one, vocabulary):
        if packed and piece.segment != border:
            border = piece.segment
            yield Text(f"  ── example {border} of this sequence", style="bold")
        yield _piece_line(piece, vocabulary)
        if with_ids:
            yield Text(f"          {' '.join(map(str, piece.ids))}", style="dim")
    if one.padding:
        yield Text(f"  padding {one.padding} x {_token_named(vocabulary, 'pad')}", style="dim")
    yield Text(f"  end     {_end_text(one, vocabulary)}", style="dim")


def _piece_line(piece: Piece, vocabulary: Vocabulary) -> Text:
    style = "green" if piece.part == "trained" else "dim"
    line = Text(f"  {piece.part:8}", style=style)
    for text, kind in spans(piece, vocabulary):
        line.append(printable_line(text), style=f"{style} reverse" if kind else style)
    return line


def _head(row: int, one: TokenSequence, noun: str) -> str:
    masked = one.length - one.trained_tokens
    cut = "; cut at max_target_length" if not one.padding else ""
    counts = f"{one.length} tokens, {one.trained_tokens} trained, {masked} masked, {one.padding} padding{cut}"
    return f"{noun} {row}: {counts}"


def _end_text(one: TokenSequence, vocabulary: Vocabulary) -> str:
    """Return a line on the special token that ends the trained text, and on the tokenizer's BOS and EOS."""
    end = one.end(vocabulary)
    if end is None:
        text = "no special token is trained at the end"
    else:
        kind = vocabulary.kinds[end]
        special = f" ({kind})" if kind != "special" else ""
        text = f"{printable_line(vocabulary.text((end,)))}{special} is trained at the end"
    first = one.inputs[0] if one.inputs else None
    began = "begins with BOS" if first is not None and vocabulary.kinds.get(first) == "BOS" else "begins without BOS"
    bos, eos = _token_named(vocabulary, "BOS"), _token_named(vocabulary, "EOS")
    return f"{text}; {began}; the tokenizer's BOS is {bos}, its EOS {eos}"


def _token_named(vocabulary: Vocabulary, kind: str) -> str:
    return next((printable_line(text) for name, text in vocabulary.named.items() if name == kind), "none")


def printable_line(text: str) -> str:
    """Return the text on one line, without control characters that act on the terminal."""
    return printable(text.replace("\n", "⏎").replace("\t", "⇥"))


def summary_lines(found: DataInspection) -> Iterator[str]:
    """Yield the lines of the summary; every figure names the rows that it counts."""
    summary = found.summary
    which = _which_rows(summary)
    for label, value, of in _figures(found, which):
        yield f"{label:<11} {value} [{of}]"
    yield f"lengths     tokens of an example before it is cut, examples [{which}]"
    yield from _bars(summary)


def _figures(found: DataInspection, which: str) -> Iterator[tuple[str, str, str]]:
    summary, reading = found.summary, found.reading
    yield "rows", f"{summary.sampled:,} read of {_rows_text(summary.rows)} in the {found.split} split", which
    if tokens := summary.tokens:
        yield "tokens", f"half at most {tokens.p50}, 90 % at most {tokens.p90}, the longest {tokens.max}", which
    yield "truncated", f"{summary.truncated:.1%} are longer than max_target_length {reading.limit}", which
    yield "no target", f"{summary.no_target:.1%} have no trained token", which
    yield "no end", f"{summary.no_end:.1%} of the uncut ones train no special token at the end", which
    yield "trained", f"{summary.trained:.1%} of the tokens", which
    yield "duplicates", f"{summary.duplicates:,} equal an earlier row", which
    if summary.in_other is not None:
        both = f"{which} against {summary.other_sampled:,} rows"
        same = (
            f"{summary.in_other:,} train the same tokens as one of the other split, {summary.whole_in_other:,} equal it"
        )
        yield "shared", same, both
    for role in summary.roles:
        yield "role", _role_text(role), which
    if summary.packing is not None:
        packed = f"the first {summary.packed_sequences} packed sequences"
        yield "packing", f"{summary.packing:.1%} of the positions are tokens", packed
    if summary.steps_per_epoch is not None and found.split == "train":
        each = f"{summary.steps_per_epoch:.1f} steps each"
        epochs = f"train.steps {reading.steps} is {summary.epochs or 0:.2f} of them"
        yield "epochs", f"{each}: {epochs}", which if summary.everything else f"estimated from {which}"


def _which_rows(summary: Summary) -> str:
    return f"all {summary.sampled:,} rows" if summary.everything else f"the first {summary.sampled:,} rows"


def _rows_text(rows: int | None) -> str:
    return "an unknown number of rows" if rows is None else f"{rows:,}"


def _role_text(role: Role) -> str:
    return f"{role.role}: {role.turns:,} messages, {role.empty:,} empty, {role.dropped:,} that the template drops"


def _bars(summary: Summary) -> Iterator[str]:
    most = max((count for _to, count in summary.histogram), default=0)
    for to, count in summary.histogram:
        yield f"{f'< {to}':>10}  {'█' * round(BAR * count / most) if most else ''} {count}"


def prepared_lines(made: PreparedFolder) -> Iterator[str]:
    prepared = made.prepared
    yield f"{'found' if made.found else 'prepared'}  {made.to}/{prepared.attempt}"
    for split, rows in prepared.rows.items():
        shards = [shard for shard in prepared.shards if shard.split == split]
        size = sum(shard.bytes for shard in shards)
        yield f"{split:8}  {rows:,} rows in {len(shards)} shards of {shards[0].rows:,}, {size / 1e6:,.1f} MB"
    if prepared.refused:
        yield f"left out  {prepared.refused:,} rows that cannot be trained on"
    yield "Replace the workload's data section by:"
