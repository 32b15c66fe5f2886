"""Check which rows a run reads again when it resumes after an interruption. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.datasets import dataset
from xsft.checks.data import training_rows
from xsft.checks.facts import Facts
from xsft.checks.schedule import may_restart
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.trainer.shuffling import reshuffles

BUFFER_ROWS = 1000
"""Rows of a file that the streaming shuffle mixes at a time. source: datasets@5.2.0 iterable_dataset.py
IterableDataset.shuffle, buffer_size; maxtext@0.2.5 input_pipeline/hf_data_processing.py passes only the seed."""

FILES_PER_READER = 8
"""Files per reader above which the rows that a restart reads again are random
(tests/contract/test_rows_read_twice.py)."""

_EVERY = re.compile(r"[*?\]}]-of-0*([1-9][0-9]{0,8})(?![0-9])")
"""Pattern of a split's files: `train-*-of-00064.parquet`."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check every run: one on this machine can be interrupted too."""
    del facts
    if run.spec.restarts.data == "reshuffle" and run.spec.data.shuffle is False:
        message = "restarts.data: reshuffle needs shuffling, but data.shuffle is false."
        yield error("reshuffle-unshuffled", "restarts.data", message, "Remove one of them.")
    again = "A run that resumes reads its data from the first row again,"
    if reshuffles(run):
        message = f"{again} in another order: some rows are trained on twice, others later or not at all."
        fix = f"With {FILES_PER_READER * readers(run)} files or more, rows repeat only by chance."
    else:
        message = f"{again} in the same order: its loss becomes lower than that of an uninterrupted run."
        fix = "Remove data.shuffle: false." if run.spec.data.shuffle is False else "Remove restarts.data: repeat."
    yield note("resume-data-restarts", "restarts.data", message, fix)
    if reshuffles(run) and may_restart(run) and keys.get("dataset_type", "hf") == "hf":
        yield from _check_file_count(run)


def readers(run: Run) -> int:
    """Return the number of processes that read data: each host in McJAX, else one."""
    if run.spec.on_this_machine or run.mode.single_controller or run.slice is None:
        return 1
    return run.slice.hosts * run.num_slices


def files(run: Run) -> int | None:
    """Return the number of files of the training split; None if unknown."""
    data = run.spec.data
    if data.hf_train_files is None:
        catalogued = dataset(data.hf_path)
        return (
            catalogued.files(data.train_split, hf_name=data.hf_name or "")
            if catalogued and not data.hf_data_dir
            else None
        )
    if set(data.hf_train_files) & set("*?[{") or data.hf_train_files.endswith("/"):
        named = _EVERY.search(data.hf_train_files)
        return int(named[1]) if named else None
    return 1


def _check_file_count(run: Run) -> Iterator[Problem]:
    present, needed, rows = files(run), FILES_PER_READER * readers(run), training_rows(run)
    if present is None or present >= needed or (rows is not None and rows <= BUFFER_ROWS * present):
        return
    message = (
        f"After a restart many rows are read again: the shuffle mixes {BUFFER_ROWS:,} rows of a file at a time, "
        f"and the data has {_number_of(present, 'file')} for {_number_of(readers(run), 'process', 'es')} that read it. "
        "Measured, of the rows read until a quarter of the data is: 96 % again with one file, 69 % with one file "
        f"a process, 25 % (chance) with {FILES_PER_READER}."
    )
    fix = (
        f"Split the data into {needed} files or more, e.g. on gs:// with data.hf_train_files, or accept it under "
        "checks:."
    )
    yield warning("resume-few-files", "data", message, fix)


def _number_of(number: int, word: str, plural: str = "s") -> str:
    return f"{number} {word}{plural if number != 1 else ''}"
