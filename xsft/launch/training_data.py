"""The training data of a workload, for the command line and for Python callers: shown, counted, prepared, drawn.

MaxText's own pipeline reads the rows, in its environment on this machine. The hub is asked before it, with a short time
limit: MaxText's libraries try for a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import SpecError, Unreachable, UsageError, refuse_errors
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem, errors_in
from xsft.base.reporting import Reporter
from xsft.checks.facts import Facts
from xsft.checks.hub_data import check_hub_data
from xsft.data.counted_store import keep_counts
from xsft.data.facts import CountedData, DataFacts
from xsft.data.findings import Summary, findings, summarize
from xsft.data.passes import (
    SAMPLE,
    DataPass,
    PassAnswers,
    ReadSettings,
    Split,
    TokenSequence,
    evaluates,
    inspection_of,
    passes_to_inspect,
    reading_of,
)
from xsft.data.pipeline import SAMPLE_S, PipelineHost, read_passes
from xsft.data.preparation import PrepareOptions, data_section, preparation
from xsft.data.refusals import check_refused_rows
from xsft.data.row_files import files_content
from xsft.data.tokenizer import read_tokenizer
from xsft.environments import environments
from xsft.evaluation.trainer_plan import held_out_keys
from xsft.launch.local_machine import Machine, program_environment
from xsft.launch.prepare_data import Follower, PreparedFolder, Workshop, prepare
from xsft.machine import clock
from xsft.machine.files import refuse_unless_free, write_atomic
from xsft.machine.paths import hub_cache, own_cache, repository_folder
from xsft.machine.process import own_environment
from xsft.planning import gather
from xsft.planning.api import LoadedWorkload
from xsft.planning.counted import address
from xsft.planning.hub import check_data, tokenizer_access
from xsft.planning.planner import make_intent
from xsft.runs.pictures import lengths_picture
from xsft.spec.paths import FILE_FORMATS, is_local
from xsft.spec.resolve import Run
from xsft.spec.stages import EvaluateStage
from xsft.trainer.local import reads_only_files


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
    passes = tuple(passes_to_inspect(run, split=split, rows=sys.maxsize if rows is None else rows))
    answers = _read_sample(run, passes, progress)
    reading = reading_of(run)
    inspection = inspection_of(run, answers)
    summary = summarize(inspection, reading=reading, vocabulary=answers.vocabulary)
    problems = tuple(findings(inspection, summary, reading=reading, split=split))
    if not inspection.sample.good:
        raise SpecError(errors_in(problems))
    if split == "train":
        sampled = f"{'all' if summary.everything else 'the first'} {summary.sampled:,} rows"
        counted = CountedData(problems=problems, rows=sampled, on=clock.today())
        keep_counts(address(run, facts), counted)
        # The same files in a bucket have the same digest; a check without the network knows only their names.
        train, evaluated = (
            DataFacts(content=files_content(files, say=progress) if files else "")
            for files in (run.files_of("train"), run.files_of("eval"))
        )
        keep_counts(address(run, replace(facts, data=train, eval_data=evaluated)), counted)
    return DataInspection(split=split, summary=summary, reading=reading, problems=problems)


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
    count = sys.maxsize if rows is None else rows
    answers = _read_sample(run, (DataPass(rows=count, packing=packed, split=split),), progress)
    if not answers.passes[0].good and (problems := tuple(refused_examples(answers, split=split))):
        raise SpecError(problems)
    return answers


def prepare_data(
    workload: LoadedWorkload, options: PrepareOptions, *, to: str | None = None, progress: ShowLine = lambda _line: None
) -> tuple[PreparedFolder, Mapping[str, Any]]:
    """Return the workload's rows as shards, made now or found, and the `data` section that reads them.

    Raises SpecError if rows cannot be read or trained on, and as `launch.prepare_data.prepare` does.
    """
    run = make_intent(workload.spec, _facts_offline(workload)).run
    rows = preparation(run, options)
    refuse_unreachable_data(run)
    python = environments.ensure("maxtext", progress=progress).python
    machine = Machine(python=python, env=own_environment(), cache=own_cache())
    folder = prepare(rows, output=run.output, to=to, workshop=Workshop(machine=machine, say=progress))
    return folder, data_section(run, folder.prepared, to=folder.to)


def _with_tokenizer(workload: LoadedWorkload) -> Facts:
    """Return the facts. Raises SpecError if the tokenizer's folder cannot be loaded."""
    facts = _facts_offline(workload)
    if facts.tokenizer_problem:
        raise SpecError((facts.tokenizer_problem,))
    return facts


def _facts_offline(workload: LoadedWorkload) -> Facts:
    facts = gather.gather(workload.spec, file=workload.file, today=clock.today(), offline=True)
    return replace(facts, template=workload.template)


class DataInspection(Struct, frozen=True, kw_only=True):
    """The result that `xsft data inspect` prints."""

    split: Split
    summary: Summary
    reading: ReadSettings
    problems: tuple[Problem, ...]


def refused_examples(answers: PassAnswers, *, split: Split) -> Iterator[Problem]:
    """Yield the problems of the rows on which MaxText stops."""
    yield from check_refused_rows(answers.passes[0], where=f"data.hf_{split}_files")


def _read_sample(run: Run, passes: tuple[DataPass, ...], progress: ShowLine) -> PassAnswers:
    if passes[0].split == "eval" and not evaluates(run):
        fix = "Set data.hf_eval_files or data.hf_eval_split, or leave --split out."
        raise UsageError("The workload names no data to evaluate on.", fix=fix)
    maxtext = environments.ensure("maxtext", progress=progress)
    refuse_unreachable(run)
    progress("reading the data through MaxText's input pipeline")
    machine = Machine(python=maxtext.python, env=own_environment(), cache=own_cache())
    unlimited = any(requested.rows == sys.maxsize for requested in passes)
    tokenizer = read_tokenizer(
        run.located(run.tokenizer or ""), revision=run.tokenizer_revision, hub_cache=hub_cache(own_environment())
    )
    return read_passes(
        run,
        passes,
        host=pipeline_host(machine, digest=maxtext.digest, online=not reads_only_files(run)),
        held_out=held_out_keys(run, EvaluateStage()),
        tokenizer=tokenizer.folder if tokenizer else None,
        say=progress,
        on_line=Follower(say=progress, verb="read", total=None).line,
        timeout_s=None if unlimited else SAMPLE_S,
    )


def pipeline_host(machine: Machine, *, digest: str, online: bool) -> PipelineHost:
    """Return the pipeline of a machine's MaxText. `digest`: of its environment; empty: answers are not stored."""
    env = program_environment(machine, Path("/tmp"), online=online)  # noqa: S108 - each question has its own TMPDIR
    answers = machine.cache / "row-answers"
    return PipelineHost(python=machine.python, env=env, prefix=machine.contain().prefix, answers=answers, digest=digest)


COPY = "Check the network and HF_ENDPOINT, or name a copy: --set data.hf_path=json --set data.hf_train_files=FILE."
FOLDER = "Check the network and HF_ENDPOINT, or name a folder: --set model.tokenizer=FOLDER."


def refuse_unreachable(run: Run) -> None:
    """Raise Unreachable if the data or the tokenizer is on the hub and the hub does not answer, SpecError if it refuses
    this login.
    """
    refuse_unreachable_data(run)
    name = run.tokenizer
    if name and not is_local(name) and "://" not in name and not Path(name).is_dir():
        try:
            problem = tokenizer_access(name, run.tokenizer_revision)
        except Unreachable as failed:
            if repository_folder(name, hub_cache({"HF_HOME": str(own_cache() / "huggingface")})).is_dir():
                return  # transformers then loads what it downloaded before
            raise Unreachable(f"The tokenizer {name} cannot be read: {failed.message}", fix=FOLDER) from failed
        if problem:
            raise SpecError((problem,))


def refuse_unreachable_data(run: Run) -> None:
    """Raise as `refuse_unreachable` does, for the data only."""
    path = run.spec.data.hf_path
    if path in FILE_FORMATS or is_local(path) or "://" in path:
        return
    hub_data = check_data(path)
    if hub_data.unanswered:
        raise Unreachable(f"{path} cannot be read: {hub_data.unanswered}", fix=COPY)
    refuse_errors(tuple(check_hub_data(run, {}, Facts(hub_data=replace(hub_data, splits={})))))


class ExamplePick(Struct, frozen=True, kw_only=True):
    """The examples to show."""

    count: int = 3
    """Maximum number of examples, unless `rows` are given."""
    rows: tuple[int, ...] = ()
    """Exactly these rows; the first is 0."""
    longest: bool = False
    """Whether the longest examples are first."""
    truncated: bool = False
    """Only examples that fill max_target_length."""
    no_target: bool = False
    """Only examples without a trained token."""
    find: str | None = None
    """Those that contain this text."""
    split: Split = "train"
    packed: bool = False
    """Whole packed sequences."""
    everything: bool = False
    """Search all rows, not only the first ones."""

    @property
    def rows_to_read(self) -> int | None:
        """Return the number of rows to read; None for all."""
        if self.everything:
            return None
        searches = self.longest or self.truncated or self.no_target or self.find
        return max((*self.rows, -1)) + 1 or (SAMPLE if searches else self.count)


class PickedExamples(Struct, frozen=True, kw_only=True):
    """The rows that were read, and those of them that were picked."""

    answers: PassAnswers
    examples: tuple[tuple[int, TokenSequence], ...]
    """(row, sequence) of each example."""
    problems: tuple[Problem, ...] = ()
    """Of the rows on which MaxText stops."""


def show_examples(workload: LoadedWorkload, pick: ExamplePick, *, listener: Reporter) -> PickedExamples:
    """Return the examples as the model sees them. Raises UsageError for a row beyond the last one, and as
    `training_data.show_data`.
    """
    with listener.working("data") as say:
        answers = show_data(workload, split=pick.split, rows=pick.rows_to_read, packed=pick.packed, progress=say)
    problems = tuple(refused_examples(answers, split=pick.split))
    return PickedExamples(answers=answers, examples=pick_examples(answers, pick), problems=problems)


def pick_examples(answers: PassAnswers, pick: ExamplePick) -> tuple[tuple[int, TokenSequence], ...]:
    """Return (row, sequence) of each example to show. Raises UsageError for a row beyond the last one."""
    count = len(answers.passes[0].rows)
    beyond = [str(row) for row in pick.rows if row >= count]
    if beyond:
        noun = "packed sequences" if pick.packed else "rows"
        message = f"--row {','.join(beyond)}: the {pick.split} split has {count:,} {noun}, numbered from 0."
        raise UsageError(message, fix=f"Give a number up to {count - 1:,}." if count else "Check the data's files.")
    numbered = list(answers.passes[0].good)
    if pick.rows:
        return tuple((row, sequence) for row, sequence in numbered if row in pick.rows)
    if pick.truncated:
        numbered = [(row, sequence) for row, sequence in numbered if not sequence.padding]
    if pick.no_target:
        numbered = [(row, sequence) for row, sequence in numbered if sequence.trained_tokens == 0]
    if pick.find:
        text_of = answers.vocabulary.text
        numbered = [
            (row, sequence)
            for row, sequence in numbered
            if pick.find in text_of(token for token, _part in sequence.tokens)
        ]
    if pick.longest:
        numbered.sort(key=lambda numbered: -numbered[1].length)
    return tuple(numbered[: pick.count])


def inspect_examples(
    workload: LoadedWorkload, *, split: Split, everything: bool, picture: Path | None, listener: Reporter
) -> DataInspection:
    """Return the counts of the training data, with the lengths drawn in the new file `picture` unless that is None.

    Raises UsageError if the file is no PNG, Refused if it exists, and as `training_data.inspect_data`.
    """
    if picture:
        refuse_picture(picture)
    with listener.working("data") as say:
        inspection = inspect_data(workload, split=split, rows=None if everything else SAMPLE, progress=say)
    if picture:
        drawn = lengths_picture(inspection.summary, limit=inspection.reading.limit, title=workload.spec.name)
        write_atomic(picture, drawn)
    return inspection


def refuse_picture(target: Path) -> None:
    """Raise UsageError if the file is no PNG, and as `refuse_unless_free`."""
    if target.suffix != ".png":
        raise UsageError(f"{target}: the picture is a PNG.", fix=f"Name it {target.with_suffix('.png').name}.")
    refuse_unless_free(target, instead="without --png the output has the lengths.")
