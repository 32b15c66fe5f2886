"""Finds the checkpoint that a user names: a path, or the newest one of a run."""

from __future__ import annotations

from pathlib import Path

from xsft.base.errors import UsageError
from xsft.machine.objects import latest_step
from xsft.records.record_files import RecordStore
from xsft.weights.converted import writes


def checkpoint_path(given: str, *, store: RecordStore) -> str:
    """Return its path, absolute or gs://. If no file has the given name, it is taken as the name of a run. Raises
    UsageError for a name that no run has, and for a run without a checkpoint, Unreachable if its output cannot be read.
    """
    scheme, separator, rest = given.partition("://")
    if separator and (scheme != "gs" or not rest.strip("/")):
        raise UsageError(
            f"{given} is not a supported path.",
            fix="Give a local folder, gs://bucket/path, or the name of a run.",
        )
    if separator:
        return given.rstrip("/")
    if "/" not in given and not Path(given).exists():
        return _of_run(given, store)
    return str(Path(given).absolute())


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
