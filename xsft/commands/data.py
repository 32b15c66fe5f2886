"""`xsft data show|inspect FILE`: what the model is given to learn from, by MaxText's own input pipeline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xsft.commands.arguments import a_name, add_json, add_settings

if TYPE_CHECKING:
    from xsft.dataset import examples
    from xsft.dataset.summary import Summary
    from xsft.effects.local.data_pipeline import Answers, Pass
    from xsft.spec.resolve import Run

ACTIONS = {
    "show": "print whole examples as the model sees them: what is trained, what is masked",
    "inspect": "count tokens, cut and untrained examples, duplicates, and how well they pack",
}
EPILOG = (
    "Runs here, in MaxText's environment (`xsft setup maxtext`), without a training and in the order of the rows. What"
    " the workload reads must be reachable from here: `--set data.hf_train_files=FILE` names a copy. Exit status 2:"
    " MaxText refuses the data."
)
SAMPLE = 2000
"""Rows that are read, unless all are asked for."""
LOOK_AHEAD = 8
"""Lengths are told up to so many times max_target_length."""
PACKED = 64
"""Packed sequences whose padding is counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    said = "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", choices=tuple(ACTIONS), help=said)
    parser.add_argument("file", type=a_name, metavar="FILE", help="a workload")
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--all", action="store_true", help=f"read every row, not only the first {SAMPLE:,}")
    shown = parser.add_argument_group("for show")
    shown.add_argument("-n", type=int, default=3, metavar="N", help="examples to show (default: %(default)s)")
    shown.add_argument("--row", type=_rows, default=(), metavar="N,M", help="these, from 0")
    shown.add_argument("--longest", action="store_true", help="the longest ones first")
    shown.add_argument("--truncated", action="store_true", help="those that fill max_target_length")
    shown.add_argument("--no-target", action="store_true", help="those without a trained token")
    shown.add_argument("--find", type=a_name, metavar="TEXT", help="those that contain it")
    shown.add_argument("--packed", action="store_true", help="whole sequences, as the run packs them")
    shown.add_argument("--tokens", action="store_true", help="with the ids of the tokens")


def _rows(text: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(one.isascii() and one.isdecimal() and len(one) < 10 for one in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} names no rows: write 3, or 3,5,8")
    return tuple(int(one) for one in numbers)


def run(args: argparse.Namespace) -> int:
    from xsft import api

    loaded = api.load(args.file, settings=args.settings)
    (intent,) = api.intend((loaded,))
    match args.action:
        case "show":
            return _show(intent.run, args)
        case _:
            return _inspect(intent.run, args)


def _read(run: Run, passes: Sequence[Pass]) -> Answers:
    from xsft.commands.progress import shown
    from xsft.effects.environments import environments
    from xsft.effects.local.data_pipeline import read
    from xsft.effects.local.machine import Machine
    from xsft.effects.machine.paths import own_cache
    from xsft.effects.machine.process import own_environment

    with shown("data") as say:
        python = environments.ensure("maxtext", progress=say).python
        say("reading the data through MaxText's input pipeline")
        return read(run, tuple(passes), machine=Machine(python=python, env=own_environment(), cache=own_cache()))


def _limit(run: Run) -> int:
    from xsft.trainers.maxtext import trainer_keys

    return int(str(trainer_keys(run).get("max_target_length", 2048)))


def _show(run: Run, args: argparse.Namespace) -> int:
    from xsft.effects.local.data_pipeline import Pass

    picks = args.longest or args.truncated or args.no_target or args.find
    wanted = max((*args.row, -1)) + 1 or (SAMPLE if picks else args.n)
    rows = sys.maxsize if args.all else wanted
    answers = _read(run, (Pass(rows=rows, packing=args.packed, max_target_length=_limit(run)),))
    found = _picked(answers, args, limit=_limit(run))
    if args.json:
        _print_examples(found, answers)
    else:
        _print(found, answers, tokens=args.tokens)
    return 0


def _picked(answers: Answers, args: argparse.Namespace, *, limit: int) -> list[tuple[int, examples.TokenSequence]]:
    """(row, sequence) of what is shown."""
    numbered = list(enumerate(answers.passes[0].rows))
    if args.row:
        return [(row, one) for row, one in numbered if row in args.row]
    if args.truncated:
        numbered = [(row, one) for row, one in numbered if one.length >= limit]
    if args.no_target:
        numbered = [(row, one) for row, one in numbered if one.trained_tokens == 0]
    if args.find:
        numbered = [(row, one) for row, one in numbered if args.find in _text(one, answers)]
    if args.longest:
        numbered.sort(key=lambda numbered: -numbered[1].length)
    return numbered[: args.n]


def _text(one: examples.TokenSequence, answers: Answers) -> str:
    return "".join(answers.texts.get(token, "") for token, _part in one.tokens)


def _print(found: Sequence[tuple[int, examples.TokenSequence]], answers: Answers, *, tokens: bool) -> None:
    from rich.text import Text

    from xsft.commands.console import console
    from xsft.dataset.examples import pieces

    show = partial(console(sys.stdout).print, highlight=False, soft_wrap=True)
    for row, one in found:
        show(Text(_head(row, one), style="bold"))
        for piece in pieces(one, answers.texts):
            style = "green" if piece.part == "trained" else "dim"
            show(Text(f"  {piece.part:8}", style=style), Text(_visible(piece.text), style=style), sep="")
            if tokens:
                show(Text(f"          {' '.join(map(str, piece.ids))}", style="dim"))
    if not found:
        show("no example of those that were read is such a one")


def _head(row: int, one: examples.TokenSequence) -> str:
    masked = one.length - one.trained_tokens
    cut = "; cut at max_target_length" if not one.padding else ""
    return (
        f"example {row}: {one.length} tokens, {one.trained_tokens} trained, {masked} masked, {one.padding} padding{cut}"
    )


def _visible(text: str) -> str:
    """On one line, and nothing in it drives the terminal."""
    from xsft.spec.keypath import printable

    return printable(text.replace("\n", "⏎").replace("\t", "⇥"))


def _print_examples(found: Sequence[tuple[int, examples.TokenSequence]], answers: Answers) -> None:
    from msgspec.structs import asdict

    from xsft.commands.documents import print_json
    from xsft.dataset.examples import pieces

    shown = [
        {
            "row": row,
            "tokens": one.length,
            "trained": one.trained_tokens,
            "padding": one.padding,
            "parts": [{**asdict(piece), "ids": list(piece.ids)} for piece in pieces(one, answers.texts)],
        }
        for row, one in found
    ]
    print_json("data", {"action": "show", "examples": shown, "summary": None, "problems": []})


def _inspect(run: Run, args: argparse.Namespace) -> int:
    from xsft.commands.failure import print_problems, problem_documents
    from xsft.dataset.findings import findings
    from xsft.dataset.summary import DataSample, summarize
    from xsft.effects.local.data_pipeline import Pass
    from xsft.trainers.maxtext import trainer_keys

    limit, rows = _limit(run), sys.maxsize if args.all else SAMPLE
    keys = trainer_keys(run)
    packs = str(keys.get("packing", True)).lower() == "true"
    one = Pass(rows=rows, packing=False, max_target_length=limit)
    uncut = Pass(rows=rows, packing=False, max_target_length=LOOK_AHEAD * limit, lengths_only=True)
    packed = (Pass(rows=PACKED, packing=True, max_target_length=limit),) if packs else ()
    answers = _read(run, (one, uncut, *packed))
    sample, lengths = answers.passes[0], answers.passes[1]
    batch = float(str(keys.get("per_device_batch_size", 1))) * run.devices
    summary = summarize(
        DataSample(
            sample=sample.rows,
            lengths=lengths.lengths,
            looked_to=LOOK_AHEAD * limit,
            packed=answers.passes[2].rows if packs else (),
            limit=limit,
            rows=len(sample.rows) if sample.ended else run.spec.data.rows,
            sequences_per_step=batch * int(str(keys.get("gradient_accumulation_steps", 1))),
        )
    )
    problems = findings(summary, limit=limit)
    if args.json:
        from xsft.commands.documents import print_json

        document = {"examples": None, "summary": _summary_document(summary), "problems": problem_documents(problems)}
        print_json("data", {"action": "inspect", **document})
    else:
        sys.stdout.writelines(f"{line}\n" for line in _summary_text(summary, limit=limit, steps=run.spec.train.steps))
        print_problems(problems)
    return 0


def _summary_document(summary: Summary) -> dict[str, Any]:
    from msgspec import to_builtins

    document: dict[str, Any] = to_builtins(summary)
    return document


def _summary_text(summary: Summary, *, limit: int, steps: int) -> Iterator[str]:
    whole = "all of them" if summary.rows == summary.sampled else f"of {summary.rows or 'an unknown number of'} rows"
    yield f"examples    {summary.sampled:,} read, {whole}"
    if tokens := summary.tokens:
        more = " or more" if tokens.at_least else ""
        yield f"tokens      half have at most {tokens.p50}, 90 % at most {tokens.p90}, the longest {tokens.max}{more}"
    yield f"truncated   {summary.truncated:.1%} are longer than max_target_length {limit}"
    yield f"no target   {summary.no_target:.1%} have no trained token"
    yield f"trained     {summary.trained:.1%} of the tokens"
    yield f"duplicates  {summary.duplicates} with the same trained tokens as another one"
    if summary.packing is not None:
        yield f"packing     {summary.packing:.1%} of the positions of packed sequences are tokens"
    if summary.steps_per_epoch is not None:
        epochs = steps / summary.steps_per_epoch if summary.steps_per_epoch else 0
        yield f"epochs      {summary.steps_per_epoch:.1f} steps each: train.steps {steps} is {epochs:.2f} of them"
    most = max((count for _to, count in summary.histogram), default=0)
    for to, count in summary.histogram:
        yield f"{f'< {to}':>10}  {'█' * round(40 * count / most) if most else ''} {count}"
