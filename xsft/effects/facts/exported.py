"""Plans an export from what the training saved and what earlier attempts left. Reads small files only."""

from __future__ import annotations

from pathlib import Path

from xsft.checkpoint.files import METADATA, OCDBT_MANIFEST, SHARDING
from xsft.conversion.inputs import next_directory, number_of
from xsft.effects.machine.process import own_environment
from xsft.effects.machine.regular import read_bytes
from xsft.effects.records.records import RecordStore
from xsft.effects.records.saved import latest_step
from xsft.effects.records.storage import Storage, storage_for
from xsft.errors import UsageError
from xsft.export.inputs import ExportInputs, content_of, directory_of
from xsft.export.plan import ExportPlan
from xsft.export.record import FILE, MAX_BYTES, ExportRecord, from_json, missing_files
from xsft.naming import stage_name
from xsft.trainers.export import (
    STAGE,
    ExportRequest,
    TrainedRun,
    export_argv,
    export_inputs,
    trained_run,
    weights_path,
)

SMALL = (METADATA, SHARDING, OCDBT_MANIFEST)
"""The files that identify a save; the manifest of an OCDBT store has the time of the commit."""
LARGEST = 64 << 20


def training_of(run_name: str, store: RecordStore) -> TrainedRun:
    """Return the training of this name. Raises UsageError for a name that no training has."""
    entries = [one for one in store.local_index().entries if one.run_name == run_name and one.output]
    output = entries[-1].output.rstrip("/") if entries else ""
    records = store.read_run(output, run_name) if entries else ()
    if not records or not records[-1].attempts:
        raise UsageError(
            f"{run_name} is no run that was submitted from this machine.",
            fix="Give a name that `xsft status --all` shows.",
        )
    record = records[-1]
    if not any(word.startswith("run_name=") for word in record.last.argv):
        raise UsageError(f"{run_name} is no training: it has no weights to export.", fix="Give the name of a training.")
    return trained_run(record, output=output)


def plan_export(
    trained: TrainedRun, asked: ExportRequest, store: RecordStore, *, output: str | None = None
) -> ExportPlan:
    """Return the plan of the next attempt, or of the complete one. `output`: of the export; None: the training's.

    Raises UsageError if there is no such checkpoint, Refused for what cannot be exported, Unreachable if the output
    cannot be read.
    """
    step = _step(trained, asked, store)
    path = weights_path(trained, step=step)
    storage = storage_for(path, env=own_environment())
    inputs = export_inputs(trained, asked, step=step, content=_content(path, storage))
    return _with_attempts(trained, inputs, output=_folder(output or trained.output), size=storage.size(path))


def plan_ahead(trained: TrainedRun, asked: ExportRequest, *, step: int) -> ExportPlan:
    """Return the plan before the training has saved `step`: its folder is named by what will be saved, and unknown."""
    inputs = export_inputs(trained, asked, step=step, content="")
    first = f"{trained.output}/{stage_name(run_name=trained.run_name, stage=STAGE)}/CONTENT"
    return ExportPlan(
        run_name=stage_name(run_name=trained.run_name, stage=STAGE),
        output=trained.output,
        inputs=inputs,
        first=first,
        directory=first,
        argv=export_argv(inputs, directory=first),
        trainer_argv=trained.argv,
    )


def _step(trained: TrainedRun, asked: ExportRequest, store: RecordStore) -> int:
    objects = store.objects_at(trained.output)
    newest = latest_step(objects, output=trained.output, run_name=trained.run_name)
    if newest is None:
        raise UsageError(
            f"run {trained.run_name} has no checkpoint that was saved to its end.",
            fix=f"See how far it has come: xsft status {trained.run_name}",
        )
    if asked.step is None or asked.step == newest:
        return newest
    names = objects.names(f"{trained.output}/{trained.run_name}/checkpoints")
    if f"{asked.step}/" not in names:
        saved = ", ".join(sorted((n.rstrip("/") for n in names if n.rstrip("/").isdecimal()), key=int))
        raise UsageError(
            f"run {trained.run_name} has no checkpoint of step {asked.step}.", fix=f"Saved steps: {saved}."
        )
    return asked.step


def _content(path: str, storage: Storage) -> str:
    return content_of({name: storage.read(f"{path}/{name}", limit=LARGEST) or b"" for name in SMALL})


def _folder(output: str) -> str:
    if output.startswith("gs://"):
        raise UsageError(
            f"the run's output is {output}, and an export on this machine needs a folder here",
            fix="Name one: --output FOLDER.",
            id="export-output",
        )
    return str(Path(output).expanduser().absolute())


def _with_attempts(trained: TrainedRun, inputs: ExportInputs, *, output: str, size: int | None) -> ExportPlan:
    first = directory_of(inputs, output=output)
    tried = _tried(first)
    records = {path: _record(path) for path in tried}
    whole = next((path for path in tried if _is_whole(path, records[path], inputs)), None)
    directory = whole or next_directory(first, taken=frozenset(tried))
    return ExportPlan(
        run_name=stage_name(run_name=trained.run_name, stage=STAGE),
        output=output,
        inputs=inputs,
        first=first,
        directory=directory,
        argv=export_argv(inputs, directory=directory),
        trainer_argv=trained.argv,
        weights_bytes=size,
        whole=whole,
        recorded=records[whole] if whole else next((records[path] for path in reversed(tried)), None),
        broken=tuple(path for path in tried if path != whole),
    )


def _tried(first: str) -> tuple[str, ...]:
    """Return the folders of the attempts, oldest first."""
    parent = Path(first).parent
    names = parent.iterdir() if parent.is_dir() else ()
    numbered = ((number_of(str(path), directory=first), str(path)) for path in names)
    return tuple(path for number, path in sorted((n, p) for n, p in numbered if n is not None))


def _record(folder: str) -> ExportRecord | None:
    try:
        return from_json(read_bytes(Path(folder) / FILE, limit=MAX_BYTES))
    except OSError:
        return None


def _is_whole(folder: str, record: ExportRecord | None, inputs: ExportInputs) -> bool:
    """Return whether the attempt is complete: its record says so, and its files have their sizes."""
    if record is None or record.outcome != "completed" or record.digest != inputs.digest:
        return False
    return not missing_files(record, sizes=sizes_in(Path(folder)))


def sizes_in(folder: Path) -> dict[str, int]:
    """Return the bytes of each file of a model, without xsft's own."""
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
