"""Check what each host does: it connects to the others in time, reads its share of the data, and reads rows again after
a restart. Pure.

source: maxtext@0.2.5 configs/base.yml and utils/max_utils.py: `jax_distributed_initialization_timeout` is what JAX's
coordinator waits for all processes, counted from the start of each; jax@0.11.0 _src/distributed.py. maxtext@0.2.5
input_pipeline/input_pipeline_utils.py [HFDataSource]: process i of n reads the files i, i+n, …, and ends when they do;
with fewer files than processes each reads all rows, and keeps every n-th.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.datasets import dataset
from xsft.catalog.releases import at_least
from xsft.checks.data import rows_per_step, training_rows
from xsft.checks.facts import Facts
from xsft.checks.schedule import may_restart, takes_spot_nodes
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.trainer.shuffling import reshuffles

TIMEOUT = "jax_distributed_initialization_timeout"
DEFAULT_S = 300
UNCONNECTED = {
    "skip_jax_distributed_system": True,
    "enable_checkpointing": False,
    "inference_benchmark_test": True,
}
"""Switches with which MaxText does not call jax.distributed.initialize. source: maxtext@0.2.5 utils/max_utils.py
[maybe_initialize_jax_distributed_system]."""
TOPOLOGY = "compile_topology"
"""Key of MaxText's ahead-of-time compiler; any value has the same effect."""
BUFFER_ROWS = 1000
"""Rows of a file that the streaming shuffle mixes at a time. source: datasets@5.2.0 iterable_dataset.py
IterableDataset.shuffle, buffer_size; maxtext@0.2.5 input_pipeline/hf_data_processing.py passes only the seed."""

FILES_PER_READER = 8
"""Files per reader above which the rows that a restart reads again are random
(tests/contract/test_rows_read_twice.py)."""

_EVERY = re.compile(r"[*?\]}]-of-0*([1-9][0-9]{0,8})(?![0-9])")
"""Pattern of a split's files: `train-*-of-00064.parquet`."""
MANY_READERS = 16
"""Minimum number of processes for a warning that each of them reads all rows."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    yield from check_startup(run, keys, facts)
    yield from check_resumption(run, keys, facts)
    yield from check_shares(run, keys, facts)


def check_startup(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check McJAX, where each host is a process; under Pathways there is one."""
    del facts
    if not run.spec.on_cluster or run.slice is None or run.mode.single_controller:
        return
    hosts = run.slice.hosts * run.num_slices
    # Keys with which the hosts do not connect. source: orbax-checkpoint@0.12.8 _src/multihost/multihost.py
    # [get_jax_distributed_client].
    unconnected = [key for key, value in UNCONNECTED.items() if key in keys and is_on(keys[key]) is value]
    unconnected += [TOPOLOGY] if keys.get(TOPOLOGY) else []
    for key in unconnected if hosts > 1 else ():
        message = (
            f"With {key}={keys[key]} MaxText does not connect the {hosts} hosts, and Orbax stops with `Distributed "
            "system is not available` before it restores or saves."
        )
        yield error("hosts-not-connected", where_of(key, run), message, "Remove it.", kind="disputable")
    timeout = number(keys.get(TIMEOUT))
    if hosts > 1 and timeout is not None and timeout < DEFAULT_S:
        message = (
            f"{hosts} hosts must have pulled the image and started within {timeout:g} s of each other, or all of them "
            f"fail with DEADLINE_EXCEEDED; JAX's default is {DEFAULT_S} s."
        )
        yield warning(
            "initialization-timeout", where_of(TIMEOUT, run), message, f"Remove it, or set at least {DEFAULT_S}."
        )
    elif run.num_slices > 1 and takes_spot_nodes(run) and (timeout or DEFAULT_S) <= DEFAULT_S:
        message = (
            f"Nodes of spot slices may come minutes apart, and the hosts of the first of {run.num_slices} slices wait "
            f"{timeout or DEFAULT_S:g} s for the others."
        )
        fix = f"Set overrides.maxtext.{TIMEOUT}: 900, or let the run restart: restarts.max."
        yield note("initialization-timeout", "tpu.num_slices", message, fix)


def check_resumption(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
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
        present = files(run)
        needed = FILES_PER_READER * readers(run)
        rows = training_rows(run)
        if present is not None and present < needed and (rows is None or rows > BUFFER_ROWS * present):
            message = (
                f"After a restart many rows are read again: the shuffle mixes {BUFFER_ROWS:,} rows of a file at "
                f"a time, and the data has {_number_of(present, 'file')} for "
                f"{_number_of(readers(run), 'process', 'es')} that read it. Measured, of the rows read until a "
                f"quarter of the data is: 96 % again with one file, 69 % with one file a process, 25 % (chance) "
                f"with {FILES_PER_READER}."
            )
            fix = (
                f"Split the data into {needed} files or more, e.g. on gs:// with data.hf_train_files, or accept "
                "it under checks:."
            )
            yield warning("resume-few-files", "data", message, fix)


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


def _number_of(number: int, word: str, plural: str = "s") -> str:
    return f"{number} {word}{plural if number != 1 else ''}"


def check_shares(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
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
        elif listed and readers(run) >= MANY_READERS:  # `hub-streaming` reports files on the hub
            many = readers(run)
            message = (
                f"The data has {listed} file{'s' if listed != 1 else ''} for {many} processes: each of them "
                f"reads and tokenises all rows, and drops {many - 1} of {many}."
            )
            fix = (
                f"Split the data into {many} files, or a multiple of that: `xsft data prepare FILE`; or use mode: "
                "pathways."
            )
            yield warning("data-few-files", "data", message, fix)
    # The rows must make a batch. source: google-tunix@0.1.7 sft/peft_trainer.py [_run_eval]: "No eval
    # examples found. Skipping eval metrics logging."
    rows = _eval_rows(run, facts)
    per_device = number(keys.get("eval_per_device_batch_size")) or number(keys.get("per_device_batch_size")) or 1.0
    batch = int(run.devices * max(1.0, per_device))
    evaluates = (number(keys.get("eval_interval")) or -1) > 0 and not is_on(keys.get("generate_padding_batch_eval"))
    if evaluates and rows is not None and rows < batch:
        message = (
            f"The data for evaluation has {rows:,} rows, and one batch takes {batch:,}: MaxText drops what "
            "makes no whole batch, so no evaluation takes place."
        )
        fix = "Use more rows, a smaller eval.per_device_batch_size, or remove the eval section."
        yield warning("eval-beyond-data", where_of("eval_interval", run), message, fix)


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
    workers = int(number(keys.get("grain_worker_count")) or 0)
    each = max(1, count // readers(run))
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
    many = readers(run)
    per_step = rows_per_step(run, keys)
    if rows is None or not count % many or not per_step or is_on(keys.get("generate_padding_batch_train")):
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


def _eval_rows(run: Run, facts: Facts) -> int | None:
    data = run.spec.data
    catalogued = dataset(run.spec.data.hf_path)
    if data.hf_eval_files is not None:
        return facts.eval_data.counted if facts.eval_data else None
    return catalogued.rows(data.hf_eval_split or "", hf_name=data.hf_name or "") if catalogued else None
