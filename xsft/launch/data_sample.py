"""Reads samples of a workload's data through MaxText's own pipeline, in its environment on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import SpecError, UsageError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem, errors_in
from xsft.data.findings import Summary, findings, summarize
from xsft.data.passes import (
    SAMPLE,
    DataPass,
    PassAnswers,
    ReadSettings,
    Split,
    evaluates,
    inspection_of,
    passes_to_inspect,
    reading_of,
)
from xsft.data.pipeline import SAMPLE_S, PipelineHost, read_passes
from xsft.data.refusals import check_refused_rows
from xsft.data.tokenizer import read_tokenizer
from xsft.environments import environments
from xsft.evaluation.trainer_plan import held_out_keys
from xsft.launch.data_online import refuse_unreachable
from xsft.launch.local_machine import Machine, program_environment
from xsft.launch.prepare_data import Follower
from xsft.machine.paths import hub_cache, own_cache
from xsft.machine.process import own_environment
from xsft.spec.resolve import Run
from xsft.spec.stages import EvaluateStage
from xsft.trainer.local import reads_only_files


class DataInspection(Struct, frozen=True, kw_only=True):
    """The result that `xsft data inspect` prints."""

    split: Split
    summary: Summary
    reading: ReadSettings
    problems: tuple[Problem, ...]


def inspect_data(run: Run, *, split: Split, rows: int | None, progress: ShowLine) -> DataInspection:
    """Return the inspection. `rows`: number of rows in the sample; None reads all. Raises as `examples` does."""
    _refuse_missing(run, split)
    passes = tuple(passes_to_inspect(run, split=split, rows=sys.maxsize if rows is None else rows))
    answers, reading = _read_sample(run, passes, progress), reading_of(run)
    found = inspection_of(run, answers)
    summary = summarize(found, reading=reading, vocabulary=answers.vocabulary)
    problems = tuple(findings(found, summary, reading=reading, split=split))
    if not found.sample.good:
        raise SpecError(errors_in(problems))
    return DataInspection(split=split, summary=summary, reading=reading, problems=problems)


def examples(
    run: Run, *, split: Split = "train", rows: int | None = SAMPLE, packing: bool = False, progress: ShowLine
) -> PassAnswers:
    """Return the first rows, or packed sequences, of a split; None reads all. Raises UsageError for a split that the
    workload lacks, and as `data_pipeline.read_passes` does.
    """
    _refuse_missing(run, split)
    count = sys.maxsize if rows is None else rows
    answers = _read_sample(run, (DataPass(rows=count, packing=packing, split=split),), progress)
    if not answers.passes[0].good and (problems := tuple(refused_examples(answers, split=split))):
        raise SpecError(problems)
    return answers


def refused_examples(answers: PassAnswers, *, split: Split) -> Iterator[Problem]:
    """Yield the problems of the rows on which MaxText stops."""
    yield from check_refused_rows(answers.passes[0], where=f"data.hf_{split}_files")


def _refuse_missing(run: Run, split: Split) -> None:
    if split == "eval" and not evaluates(run):
        fix = "Set data.hf_eval_files or data.hf_eval_split, or leave --split out."
        raise UsageError("The workload names no data to evaluate on.", fix=fix)


def _read_sample(run: Run, passes: tuple[DataPass, ...], progress: ShowLine) -> PassAnswers:
    maxtext = environments.ensure("maxtext", progress=progress)
    refuse_unreachable(run)
    progress("reading the data through MaxText's input pipeline")
    machine = Machine(python=maxtext.python, env=own_environment(), cache=own_cache())
    unlimited = any(one.rows == sys.maxsize for one in passes)
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
