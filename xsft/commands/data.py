"""`xsft data show|inspect|prepare FILE`: show what the model learns from, by MaxText's own input pipeline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from xsft import api, training_data
from xsft.actions.new_file import refuse_unless_free
from xsft.actions.pictures import lengths_picture
from xsft.commands.arguments.weights import SAMPLE
from xsft.dataset.examples import Piece, TokenSequence, Vocabulary, pieces
from xsft.dataset.passes import Answers
from xsft.dataset.preparing import Options
from xsft.effects.local.data_sample import DataInspection
from xsft.effects.local.preparing import PreparedAt
from xsft.effects.machine.files import write_atomic
from xsft.errors import UsageError
from xsft.importer.text import workload_yaml
from xsft.screen.data_text import print_examples, print_summary
from xsft.screen.documents import print_json, status_of
from xsft.screen.failure import print_problems, problem_documents
from xsft.screen.progress import shown
from xsft.training_data import inspect_data, show_data


def run(args: argparse.Namespace) -> int:
    if args.action == "prepare":
        return prepare_data(args)
    workload = api.load(args.file, settings=args.settings)
    match args.action:
        case "show":
            return _show_examples(workload, args)
        case _:
            return _inspect(workload, args)


def _show_examples(workload: api.Loaded, args: argparse.Namespace) -> int:
    with shown("data") as say:
        answers = show_data(workload, split=args.split, rows=_wanted(args), packed=args.packed, progress=say)
    refuse_rows_beyond(answers, args)
    found = picked(answers, args)
    if args.json:
        _print_examples(found, answers.vocabulary, split=args.split)
    else:
        noun = "sequence" if args.packed else "example"
        print_examples(found, answers.vocabulary, noun=noun, with_ids=args.tokens)
        if not found:
            sys.stdout.write(f"none of the {len(answers.passes[0].rows):,} {noun}s read matches\n")
    return 0


def _wanted(args: argparse.Namespace) -> int | None:
    """Return the number of rows to read; None for all."""
    if args.all:
        return None
    picks = args.longest or args.truncated or args.no_target or args.find
    return max((*args.row, -1)) + 1 or (SAMPLE if picks else args.n)


def refuse_rows_beyond(answers: Answers, args: argparse.Namespace) -> None:
    """Raise UsageError for a row of --row beyond the last one."""
    count = len(answers.passes[0].rows)
    beyond = [str(row) for row in args.row if row >= count]
    if beyond:
        noun = "packed sequences" if args.packed else "rows"
        message = f"--row {','.join(beyond)}: the {args.split} split has {count:,} {noun}, numbered from 0."
        raise UsageError(message, fix=f"Give a number up to {count - 1:,}." if count else "Check the data's files.")


def picked(answers: Answers, args: argparse.Namespace) -> list[tuple[int, TokenSequence]]:
    """Return (row, sequence) of each example to show."""
    numbered = list(enumerate(answers.passes[0].rows))
    if args.row:
        return [(row, one) for row, one in numbered if row in args.row]
    if args.truncated:
        numbered = [(row, one) for row, one in numbered if not one.padding]
    if args.no_target:
        numbered = [(row, one) for row, one in numbered if one.trained_tokens == 0]
    if args.find:
        numbered = [(row, one) for row, one in numbered if args.find in _sequence_text(one, answers.vocabulary)]
    if args.longest:
        numbered.sort(key=lambda numbered: -numbered[1].length)
    return numbered[: args.n]


def _sequence_text(one: TokenSequence, vocabulary: Vocabulary) -> str:
    return vocabulary.text(token for token, _part in one.tokens)


def _print_examples(found: Sequence[tuple[int, TokenSequence]], vocabulary: Vocabulary, *, split: str) -> None:
    examples = [_example_document(row, one, vocabulary) for row, one in found]
    print_json("data", {"action": "show", "split": split, "examples": examples, **_NO_SUMMARY, "problems": []})


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


def _inspect(workload: api.Loaded, args: argparse.Namespace) -> int:
    target = _free(args.png)
    with shown("data") as say:
        rows = None if args.all else SAMPLE
        found = inspect_data(workload, split=args.split, rows=rows, progress=say)
    if target:
        limit, title = found.reading.limit, workload.spec.name
        write_atomic(target, lengths_picture(found.summary, limit=limit, title=title))
    if args.json:
        _print_inspection(found, target)
    else:
        print_summary(found)
        print_problems(found.problems)
    return status_of(found.problems)


def _free(name: str | None) -> Path | None:
    if name is None:
        return None
    target = Path(name)
    if target.suffix != ".png":
        raise UsageError(f"{target}: the picture is a PNG.", fix=f"Name it {target.with_suffix('.png').name}.")
    refuse_unless_free(target, instead="without --png the output has the lengths.")
    return target


def _print_inspection(found: DataInspection, target: Path | None) -> None:
    figures = {**to_builtins(found.summary), "picture": str(target) if target else None}
    problems = problem_documents(found.problems)
    print_json("data", {"action": "inspect", "split": found.split, "examples": None, **figures, "problems": problems})


def prepare_data(args: argparse.Namespace) -> int:
    workload = api.load(args.file, settings=args.settings)
    with shown("data") as say:
        made, section = training_data.prepare_data(workload, _prepare_options(args), to=args.to, progress=say)
    if args.json:
        _print_prepared(made, section)
    else:
        sys.stderr.writelines(f"{line}\n" for line in _prepared_text(made))
        print_problems(made.problems)
        sys.stdout.write(workload_yaml({"data": dict(section)}))
    return 0


def _prepare_options(args: argparse.Namespace) -> Options:
    return Options(
        columns=args.columns,
        renames=dict(args.rename),
        eval_share=args.eval_share,
        shards=args.shards,
        format=args.format,
        sharegpt=args.from_sharegpt,
        skip_bad=args.skip_bad,
    )


def _prepared_text(made: PreparedAt) -> Iterator[str]:
    prepared = made.prepared
    yield f"{'found' if made.found else 'prepared'}  {made.to}/{prepared.attempt}"
    for split, rows in prepared.rows.items():
        shards = [shard for shard in prepared.shards if shard.split == split]
        size = sum(shard.bytes for shard in shards)
        yield f"{split:8}  {rows:,} rows in {len(shards)} shards of {shards[0].rows:,}, {size / 1e6:,.1f} MB"
    if prepared.refused:
        yield f"left out  {prepared.refused:,} rows that cannot be trained on"
    yield "Replace the workload's data section by:"


def _print_prepared(made: PreparedAt, section: Mapping[str, Any]) -> None:
    fields = {name: value for name, value in to_builtins(made.prepared).items() if name not in ("schema", "address")}
    print_json(
        "data-prepare",
        {"to": made.to, "found": made.found, **fields, "data": section, "problems": problem_documents(made.problems)},
    )
