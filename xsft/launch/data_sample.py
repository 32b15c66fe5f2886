"""Reads samples of a workload's data through MaxText's own pipeline, in its environment on this machine."""

from __future__ import annotations

import sys

from msgspec import Struct

from xsft.base.aliases import ShowLine
from xsft.base.errors import UsageError
from xsft.base.problems import Problem
from xsft.data.findings import findings
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
from xsft.data.summary import Summary, summarize
from xsft.environments import environments
from xsft.launch.data_online import refuse_unreachable
from xsft.launch.data_pipeline import SAMPLE_S, read_passes
from xsft.launch.local_machine import Machine
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment
from xsft.spec.resolve import Run


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
    summary = summarize(inspection_of(run, answers), reading=reading, vocabulary=answers.vocabulary)
    problems = tuple(findings(summary, reading=reading, split=split))
    return DataInspection(split=split, summary=summary, reading=reading, problems=problems)


def examples(
    run: Run, *, split: Split = "train", rows: int | None = SAMPLE, packing: bool = False, progress: ShowLine
) -> PassAnswers:
    """Return the first rows, or packed sequences, of a split; None reads all. Raises UsageError for a split that the
    workload lacks, and as `data_pipeline.read_passes` does.
    """
    _refuse_missing(run, split)
    count = sys.maxsize if rows is None else rows
    limit = reading_of(run).limit
    return _read_sample(run, (DataPass(rows=count, packing=packing, max_target_length=limit, split=split),), progress)


def _refuse_missing(run: Run, split: Split) -> None:
    if split == "eval" and not evaluates(run):
        fix = "Set data.hf_eval_files or data.hf_eval_split, or leave --split out."
        raise UsageError("The workload names no data to evaluate on.", fix=fix)


def _read_sample(run: Run, passes: tuple[DataPass, ...], progress: ShowLine) -> PassAnswers:
    python = environments.ensure("maxtext", progress=progress).python
    refuse_unreachable(run)
    progress("reading the data through MaxText's input pipeline")
    machine = Machine(python=python, env=own_environment(), cache=own_cache())
    unlimited = any(one.rows == sys.maxsize for one in passes)
    return read_passes(run, passes, machine=machine, say=progress, timeout_s=None if unlimited else SAMPLE_S)
