"""The training data of a workload, for the command line and for Python callers: shown, counted, prepared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from xsft.base.errors import SpecError
from xsft.base.lenient import ShowLine
from xsft.checks.facts import Facts
from xsft.data.counted_store import keep_counts
from xsft.data.facts import CountedData, DataFacts
from xsft.data.passes import SAMPLE, PassAnswers, Split
from xsft.data.preparation import PrepareOptions, data_section, preparation
from xsft.data.row_files import files_content
from xsft.environments import environments
from xsft.launch import data_sample
from xsft.launch.data_online import refuse_unreachable_data
from xsft.launch.data_sample import DataInspection
from xsft.launch.local_machine import Machine
from xsft.launch.prepare_data import PreparedFolder, Workshop, prepare
from xsft.machine import clock
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment
from xsft.planning import gather
from xsft.planning.api import LoadedWorkload
from xsft.planning.counted import address
from xsft.planning.planner import make_intent
from xsft.spec.resolve import Run


def inspect_data(
    workload: LoadedWorkload,
    *,
    split: Split = "train",
    rows: int | None = SAMPLE,
    progress: ShowLine = lambda _line: None,
) -> DataInspection:
    """Return the counts of the training data as the model sees it, and the problems found; `rows` None reads every row.

    `xsft.check` knows the counts of the training split from then on, for the same rows and keys. Raises SpecError if
    MaxText refuses the data, UsageError for a split that the workload lacks.
    """
    facts = _with_tokenizer(workload)
    run = make_intent(workload.spec, facts).run
    found = data_sample.inspect_data(run, split=split, rows=rows, progress=progress)
    if split == "train":
        sampled = f"{'all' if found.summary.everything else 'the first'} {found.summary.sampled:,} rows"
        counted = CountedData(problems=found.problems, rows=sampled, on=clock.today())
        # A check without the network knows files in a bucket by their names only.
        for known in (facts, _with_content(run, facts, progress)):
            keep_counts(address(run, known), counted)
    return found


def _with_content(run: Run, facts: Facts, progress: ShowLine) -> Facts:
    """Return the facts with digests of the files: the same files in a bucket have the same."""
    train, evaluated = (
        DataFacts(content=files_content(files, say=progress) if files else "")
        for files in (run.files_of("train"), run.files_of("eval"))
    )
    return replace(facts, data=train, eval_data=evaluated)


def show_data(
    workload: LoadedWorkload,
    *,
    split: Split = "train",
    rows: int | None = SAMPLE,
    packed: bool = False,
    progress: ShowLine = lambda _line: None,
) -> PassAnswers:
    """Return the first examples, or packed sequences, as the model sees them. Raises as `inspect_data` does."""
    run = make_intent(workload.spec, _with_tokenizer(workload)).run
    return data_sample.examples(run, split=split, rows=rows, packing=packed, progress=progress)


def prepare_data(
    workload: LoadedWorkload, options: PrepareOptions, *, to: str | None = None, progress: ShowLine = lambda _line: None
) -> tuple[PreparedFolder, Mapping[str, Any]]:
    """Return the workload's rows as shards, made now or found, and the `data` section that reads them.

    Raises SpecError if rows cannot be read or trained on, and as `launch.prepare_data.prepare` does.
    """
    run = _offline(workload)
    wanted = preparation(run, options)
    refuse_unreachable_data(run)
    python = environments.ensure("maxtext", progress=progress).python
    machine = Machine(python=python, env=own_environment(), cache=own_cache())
    made = prepare(wanted, output=run.output, to=to, workshop=Workshop(machine=machine, say=progress))
    return made, data_section(run, made.prepared, to=made.to)


def _offline(workload: LoadedWorkload) -> Run:
    """Return the run, decided without reading its checkpoint."""
    return make_intent(workload.spec, _facts_offline(workload)).run


def _with_tokenizer(workload: LoadedWorkload) -> Facts:
    """Return the facts. Raises SpecError if the tokenizer's folder cannot be loaded."""
    facts = _facts_offline(workload)
    if facts.tokenizer_problem:
        raise SpecError((facts.tokenizer_problem,))
    return facts


def _facts_offline(workload: LoadedWorkload) -> Facts:
    facts = gather.gather(workload.spec, file=workload.file, today=clock.today(), offline=True)
    return replace(facts, template=workload.template)
