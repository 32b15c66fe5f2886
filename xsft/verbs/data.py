"""`xsft data show|inspect|prepare FILE`: show what the model learns from, by MaxText's own input pipeline."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xsft.data.preparation import PrepareOptions
from xsft.importing.text import workload_yaml
from xsft.launch import training_data
from xsft.launch.examples import ExamplePick, inspect_examples, show_examples
from xsft.planning import api
from xsft.verbs.data_json import examples_document, inspection_document, prepared_document
from xsft.verbs.data_text import prepared_lines, print_examples, print_summary
from xsft.verbs.failure import print_problems
from xsft.verbs.plan_document import print_json, status_of
from xsft.verbs.progress import show_progress
from xsft.verbs.terminal import terminal


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
    found = show_examples(workload, pick_of(args), listener=terminal())
    if args.json:
        print_json("data", examples_document(found, split=args.split))
        return 0
    noun = "sequence" if args.packed else "example"
    print_examples(found.examples, found.answers.vocabulary, noun=noun, with_ids=args.tokens)
    if not found.examples:
        sys.stdout.write(f"none of the {len(found.answers.passes[0].rows):,} {noun}s read matches\n")
    return 0


def pick_of(args: argparse.Namespace) -> ExamplePick:
    return ExamplePick(
        count=args.n,
        rows=tuple(args.row),
        longest=args.longest,
        truncated=args.truncated,
        no_target=args.no_target,
        find=args.find,
        split=args.split,
        packed=args.packed,
        everything=args.all,
    )


def _inspect(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    picture = Path(args.png) if args.png is not None else None
    found = inspect_examples(workload, split=args.split, everything=args.all, picture=picture, listener=terminal())
    if args.json:
        print_json("data", inspection_document(found, picture=picture))
    else:
        print_summary(found)
        print_problems(found.problems)
    return status_of(found.problems)


def _prepare_data(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    with show_progress("data") as say:
        made, section = training_data.prepare_data(workload, _prepare_options(args), to=args.to, progress=say)
    if args.json:
        print_json("data-prepare", prepared_document(made, section))
    else:
        sys.stderr.writelines(f"{line}\n" for line in prepared_lines(made))
        print_problems(made.problems)
        sys.stdout.write(workload_yaml({"data": dict(section)}))
    return 0


def _prepare_options(args: argparse.Namespace) -> PrepareOptions:
    return PrepareOptions(
        columns=args.columns,
        renames=dict(args.rename),
        eval_share=args.eval_share,
        shards=args.shards,
        format=args.format,
        sharegpt=args.from_sharegpt,
        skip_bad=args.skip_bad,
    )
