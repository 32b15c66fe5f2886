"""Check how the data is shared: files between the processes that read them, rows between the evaluations. Pure.

source: maxtext@0.2.5 input_pipeline/input_pipeline_utils.py [HFDataSource]: process i of n reads the files i, i+n, …,
and ends when they do; with fewer files than processes each reads all rows, and keeps every n-th.
"""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.problems import Problem, error, warning
from xsft.catalog.datasets import dataset
from xsft.catalog.releases import at_least
from xsft.checks.data import rows_per_step, training_rows
from xsft.checks.facts import Facts
from xsft.checks.resumption import files, readers
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

MANY_READERS = 16
"""Minimum number of processes for a warning that each of them reads all rows."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check shares that leave processes or evaluations without rows."""
    if run.spec.on_cluster and run.slice is None:
        return
    listed = facts.data.files if facts.data else None
    count = listed or files(run)
    if listed and keys.get("dataset_type") == "grain":
        yield from _check_grain_files(run, keys, listed)
    if count is not None and keys.get("dataset_type", "hf") == "hf":
        if count >= readers(run):
            yield from _check_even_shares(run, keys, facts, count)
        elif listed:  # `hub-streaming` reports files on the hub
            yield from _check_fewer_files(run, listed)
    yield from _check_evaluation_batch(run, keys, facts)


def _check_fewer_files(run: Run, count: int) -> Iterator[Problem]:
    many = readers(run)
    if many < MANY_READERS:
        return
    message = (
        f"The data has {count} file{'s' if count != 1 else ''} for {many} processes: each of them reads and tokenises"
        f" all rows, and drops {many - 1} of {many}."
    )
    fix = f"Split the data into {many} files, or a multiple of that: `xsft data prepare FILE`; or use mode: pathways."
    yield warning("data-few-files", "data", message, fix)


def _check_grain_files(run: Run, keys: Keys, count: int) -> Iterator[Problem]:
    """Check Grain's files and workers. source: maxtext@0.2.5 input_pipeline/grain_data_processing.py: ValueError, and
    github.com/AI-Hypercomputer/maxtext/issues/4335; releases before it, issues/3807: IndexError, and exit status 0."""
    if keys.get("grain_file_type") == "parquet" and count < readers(run) and not at_least(run.release.version, "0.2.5"):
        message = (
            f"The data has {count} files for {readers(run)} processes, and Grain of MaxText {run.release.version} gives"
            " some of them none: IndexError, and the run ends with exit status 0."
        )
        fix = f"Split the data into at least {readers(run)} files: `xsft data prepare FILE`; or use MaxText 0.2.5."
        yield error("grain-files", "data", message, fix, kind="disputable")
        return
    workers, each = int(number(keys.get("grain_worker_count")) or 0), max(1, count // readers(run))
    if keys.get("grain_file_type") == "parquet" and workers > each:
        message = (
            f"grain_worker_count {workers} is more than the {each} of {count} files that each of {readers(run)}"
            " processes reads: MaxText stops with ValueError."
        )
        yield error(
            "grain-workers-files",
            where_of("grain_worker_count", run),
            message,
            f"Use at most {each}, or split the data into {workers * readers(run)} files.",
            kind="disputable",
        )


def _check_even_shares(run: Run, keys: Keys, facts: Facts, count: int) -> Iterator[Problem]:
    """Check for files that do not divide evenly among processes: the run ends with the first process that has no more
    rows."""
    rows = (facts.data.counted if facts.data else None) or training_rows(run)
    many, per_step = readers(run), rows_per_step(run, keys)
    if rows is None or not count % many or not per_step or is_on(keys.get("generate_padding_batch_train", False)):
        return
    epochs = run.spec.data.num_epoch or 1
    even = rows * epochs * (count // many * many) // count
    if even // per_step < run.spec.train.steps <= rows * epochs // per_step:
        message = (
            f"{count} files are not a multiple of the {many} processes that read them. Processes with {count // many} "
            f"files end first, and the run with them, after about {even // per_step} of {run.spec.train.steps} steps."
        )
        fix = f"Split the data into a multiple of {many} files, or use at most {even // per_step} steps."
        yield warning("data-uneven-files", "data", message, fix)


def _check_evaluation_batch(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check that the rows make a batch. source: google-tunix@0.1.7 sft/peft_trainer.py [_run_eval]: "No eval examples
    found. Skipping eval metrics logging."
    """
    if (number(keys.get("eval_interval")) or -1) <= 0 or is_on(keys.get("generate_padding_batch_eval", False)):
        return
    rows, batch = _eval_rows(run, facts), _eval_batch(run, keys)
    if rows is None or rows >= batch:
        return
    message = (
        f"The data for evaluation has {rows:,} rows, and one batch takes {batch:,}: MaxText drops what makes no whole"
        " batch, so no evaluation takes place."
    )
    fix = "Use more rows, a smaller eval.per_device_batch_size, or remove the eval section."
    yield warning("eval-beyond-data", where_of("eval_interval", run), message, fix)


def _eval_rows(run: Run, facts: Facts) -> int | None:
    data, catalogued = run.spec.data, dataset(run.spec.data.hf_path)
    if data.hf_eval_files is not None:
        return facts.eval_data.counted if facts.eval_data else None
    return catalogued.rows(data.hf_eval_split or "", hf_name=data.hf_name or "") if catalogued else None


def _eval_batch(run: Run, keys: Keys) -> int:
    per_device = number(keys.get("eval_per_device_batch_size")) or number(keys.get("per_device_batch_size")) or 1.0
    return int(run.devices * max(1.0, per_device))
