"""`xsft data prepare FILE`: write the workload's rows as files that many hosts read well, and print the `data` section
for them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import to_builtins

from xsft import api, training_data
from xsft.commands.documents import print_json
from xsft.commands.failure import print_problems, problem_documents
from xsft.commands.progress import shown
from xsft.dataset.preparing import Options
from xsft.effects.local.preparing import PreparedAt
from xsft.importer.text import workload_yaml


def prepare_data(args: argparse.Namespace) -> int:
    workload = api.load(args.file, settings=args.settings)
    with shown("data") as say:
        made, section = training_data.prepare_data(workload, _options(args), to=args.to, progress=say)
    if args.json:
        _print_document(made, section)
    else:
        sys.stderr.writelines(f"{line}\n" for line in _text(made))
        print_problems(made.problems)
        sys.stdout.write(workload_yaml({"data": dict(section)}))
    return 0


def _options(args: argparse.Namespace) -> Options:
    return Options(
        columns=args.columns,
        renames=dict(args.rename),
        eval_share=args.eval_share,
        shards=args.shards,
        format=args.format,
        sharegpt=args.from_sharegpt,
        skip_bad=args.skip_bad,
    )


def _text(made: PreparedAt) -> Iterator[str]:
    prepared = made.prepared
    yield f"{'found' if made.found else 'prepared'}  {made.to}/{prepared.attempt}"
    for split, rows in prepared.rows.items():
        shards = [shard for shard in prepared.shards if shard.split == split]
        size = sum(shard.bytes for shard in shards)
        yield f"{split:8}  {rows:,} rows in {len(shards)} shards of {shards[0].rows:,}, {size / 1e6:,.1f} MB"
    if prepared.refused:
        yield f"left out  {prepared.refused:,} rows that cannot be trained on"
    yield "Replace the workload's data section by:"


def _print_document(made: PreparedAt, section: Mapping[str, Any]) -> None:
    said = {name: value for name, value in to_builtins(made.prepared).items() if name not in ("schema", "address")}
    print_json(
        "data-prepare",
        {"to": made.to, "found": made.found, **said, "data": section, "problems": problem_documents(made.problems)},
    )
