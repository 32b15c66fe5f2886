"""Finds the checkpoint that a user means: a path, or the newest one of a run."""

from __future__ import annotations

from pathlib import Path

from xsft.effects.records.records import RecordStore
from xsft.effects.records.saved import latest_step
from xsft.errors import UsageError


def checkpoint_path(given: str, *, store: RecordStore) -> str:
    """Absolute, or gs://. A run of that name counts where nothing is called so here.

    Raises UsageError for a name that no run has, and for a run that has no checkpoint,
    Unreachable where its output cannot be looked at.
    """
    if given.startswith("gs://"):
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
    step = latest_step(store.objects_at(output), output=output, run_name=run_name)
    if step is None:
        raise UsageError(
            f"run {run_name} has no checkpoint that was saved to its end, in {output}/{run_name}/checkpoints.",
            fix=f"See how far it has come: xsft status {run_name}",
        )
    return f"{output}/{run_name}/checkpoints/{step}/model_params"
