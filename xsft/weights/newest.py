"""Finds the checkpoint that a user names, a path or the newest one of a run, and the conversion that wrote one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xsft.base.errors import UsageError, XsftError
from xsft.machine.objects import latest_step
from xsft.records import CONVERSION_KEY
from xsft.records.record import Record
from xsft.records.record_files import RecordStore
from xsft.spec.conversion_inputs import is_commit, items


def checkpoint_path(named: str, *, store: RecordStore) -> str:
    """Return its path, absolute or gs://. If no file has the given name, it is taken as the name of a run. Raises
    UsageError for a name that no run has, and for a run without a checkpoint, Unreachable if its output cannot be read.
    """
    scheme, separator, bucket_path = named.partition("://")
    if separator and (scheme != "gs" or not bucket_path.strip("/")):
        raise UsageError(
            f"{named} is not a supported path.",
            fix="Give a local folder, gs://bucket/path, or the name of a run.",
        )
    if separator:
        return named.rstrip("/")
    if "/" not in named and not Path(named).exists():
        return _of_run(named, store)
    return str(Path(named).absolute())


def _of_run(run_name: str, store: RecordStore) -> str:
    entries = [entry for entry in store.local_index().entries if entry.run_name == run_name and entry.output]
    if not entries:
        raise UsageError(
            f"{run_name} is neither a folder here nor a run that was submitted from this machine.",
            fix="Give the checkpoint's path, …/items or …/model_params, or a name that `xsft status --all` shows.",
        )
    output = entries[-1].output.rstrip("/")
    if converted := next(filter(None, map(writes, reversed(store.read_run(output, run_name)))), None):
        return converted
    step = latest_step(store.objects_at(output), output=output, run_name=run_name)
    if step is None:
        raise UsageError(
            f"run {run_name} has no complete checkpoint in {output}/{run_name}/checkpoints.",
            fix=f"Check its progress: xsft status {run_name}",
        )
    return f"{output}/{run_name}/checkpoints/{step}/model_params"


SUFFIX = "-convert/"
"""Suffix of the folders of conversions; source: xsft.trainer.arguments, STAGE."""
MAX_RUNS = 20
"""Maximum number of runs whose records are read; each is a few requests."""


def conversion_of(path: str, store: RecordStore) -> Record | None:
    """Return the record of the run that wrote `<output>/converted/<try>/0/items`, or None if no run recorded it.
    A job of a cluster leaves nothing beside its result.
    """
    output, marked, _ = path.rpartition("/converted/")
    if not marked:
        return None
    try:
        names = [name for name in store.objects_at(output).names(output) if name.endswith(SUFFIX)]
        runs = (store.read_run(output, name.rstrip("/")) for name in names[:MAX_RUNS])
        return next((record for records in runs for record in reversed(records) if writes(record) == path), None)
    except XsftError:
        return None


def writes(record: Record) -> str | None:
    """Return the checkpoint that a conversion writes, or None for a training."""
    path = record.last.resolved.get("writes")
    if isinstance(path, str):
        return path
    directory = _mapping_or_empty(record.spec.get(CONVERSION_KEY)).get("directory")
    return items(directory) if isinstance(directory, str) else None


def source_of(record: Record) -> str:
    """Return the weights that a job of a cluster converted, with their commit if it named one."""
    repo = str(_mapping_or_empty(_mapping_or_empty(record.spec.get("model")).get("hf")).get("repo", ""))
    revision = next((word.partition("=")[2] for word in record.last.argv if word.startswith("--revision=")), None)
    return f"{repo}@{revision}" if is_commit(revision) else repo


def _mapping_or_empty(section: object) -> Mapping[str, Any]:
    return section if isinstance(section, Mapping) else {}
