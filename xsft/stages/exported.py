"""Plans an export from the training's checkpoints and the folders of earlier attempts. Reads small files only."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from xsft.base.errors import SpecError, UsageError
from xsft.base.names import attempt_number, next_attempt, stage_name
from xsft.checks.cpu_job import check_exported_weights, whole_weights
from xsft.launch.identity import has_started
from xsft.machine.objects import latest_step
from xsft.machine.process import own_environment
from xsft.machine.regular import open_regular
from xsft.machine.storage import GcsStorage, Storage, storage_for
from xsft.records.index import IndexEntry
from xsft.records.record_files import RecordStore
from xsft.spec.conversion_inputs import MAX_RECORD_BYTES, RECORD_FILE, items, read_conversion
from xsft.spec.export_inputs import ExportInputs, ExportSource, content_of, directory_of
from xsft.weights.checkpoint_files import METADATA, OCDBT_MANIFEST, SHARDING
from xsft.weights.export_record import FILE, MAX_BYTES, ExportPlan, ExportRecord, from_json, missing_files
from xsft.weights.exporter import (
    STAGE,
    ExportRequest,
    TrainedRun,
    export_argv,
    export_inputs,
    trained_run,
    weights_path,
    words_of,
)
from xsft.weights.read_checkpoint import read_checkpoint
from xsft.workers.export_judging import ReadPart

SMALL = (METADATA, SHARDING, OCDBT_MANIFEST)
"""The files that identify a save; the manifest of an OCDBT store has the time of the commit."""
LARGEST = 64 << 20


def training_of(run_name: str, store: RecordStore) -> TrainedRun:
    """Return the training of this name. Raises UsageError for a name that no training has."""
    output = newest_entry(run_name, store).output.rstrip("/")
    records = store.read_run(output, run_name)
    if not records or not records[-1].attempts:
        raise _not_submitted(run_name)
    record = records[-1]
    if not any(word.startswith("run_name=") for word in record.last.argv):
        raise UsageError(
            f"Run {run_name} is not a training: it has no weights to export.", fix="Give the name of a training."
        )
    return trained_run(record, output=output)


def newest_entry(run_name: str, store: RecordStore) -> IndexEntry:
    """Return the newest entry of the index for this name. Raises UsageError without one."""
    entries = [run for run in store.local_index().entries if run.run_name == run_name and run.output]
    if not entries:
        raise _not_submitted(run_name)
    return entries[-1]


def _not_submitted(run_name: str) -> UsageError:
    fix = "Give a name that `xsft status --all` shows."
    return UsageError(f"Run {run_name} was not submitted from this machine.", fix=fix)


def plan_export(
    trained: TrainedRun,
    request: ExportRequest,
    store: RecordStore,
    *,
    output: str | None = None,
    folder: str | None = None,
) -> ExportPlan:
    """Return the plan of the next attempt, or of the complete one. `output`: of the export; None: the training's.
    `folder`: that the exporter writes in a pod; None: on this machine.

    Raises UsageError if there is no such checkpoint, Refused for what cannot be exported, Unreachable if the output
    cannot be read.
    """
    step = _choose_step(trained, request, store)
    path = weights_path(trained, step=step)
    storage = storage_for(path, env=own_environment())
    content = content_of({name: storage.read(f"{path}/{name}", limit=LARGEST) or b"" for name in SMALL})
    inputs = export_inputs(trained, request, step=step, content=content, converted=_converted_source(trained))
    # The hub may have another commit of the tokenizer by now, or not answer: the export has what the training read.
    for record in store.read_run(trained.output, trained.run_name):
        if record.spec_digest == trained.spec_digest and has_started(record):
            copied = words_of(record.last.argv).copied
            inputs = replace(inputs, tokenizer_revision=copied.revision if copied else None)
    refuse_wrong_weights(inputs)
    root = output or trained.output
    if not folder:
        root = str(Path(root).expanduser().absolute())
    return _with_attempts(trained, inputs, output=root.rstrip("/"), size=_bytes_read(inputs), folder=folder)


def plan_ahead(
    trained: TrainedRun, request: ExportRequest, *, step: int, output: str | None = None, folder: str | None = None
) -> ExportPlan:
    """Return the plan before the training has saved `step`: its folder is named by what will be saved, and unknown."""
    inputs = export_inputs(trained, request, step=step, content="")
    root = (output or trained.output).rstrip("/")
    first = f"{root}/{stage_name(run_name=trained.run_name, stage=STAGE)}/CONTENT"
    return _plan(trained, inputs, output=root, first=first, directory=first, folder=folder)


def _converted_source(trained: TrainedRun) -> ExportSource | None:
    """Return the Hugging Face model that the conversion of the initial checkpoint recorded; None without a record."""
    base = words_of(trained.argv).text("load_parameters_path") or ""
    directory = base.removesuffix(items(""))
    if directory == base:
        return None
    storage = storage_for(directory, env=own_environment())
    content = storage.read(f"{directory}/{RECORD_FILE}", limit=MAX_RECORD_BYTES)
    record = read_conversion(content or b"")
    source = record.inputs.get("source") if record is not None else None
    if not isinstance(source, dict):
        return None
    return ExportSource(repo=source["repo"], revision=source.get("commit") or source.get("revision"))


def refuse_wrong_weights(inputs: ExportInputs) -> None:
    """Raise SpecError for a checkpoint that is cut off, or of another model, by its small files."""
    path = whole_weights(inputs)
    if path is not None and (problems := tuple(check_exported_weights(inputs, read_checkpoint(path)))):
        raise SpecError(problems)


def _bytes_read(inputs: ExportInputs) -> int | None:
    """Return the bytes of the checkpoints; None if one of them has too many files to add up."""
    paths = (inputs.weights, *((inputs.base,) if inputs.form == "merged" and inputs.base else ()))
    sizes = [storage_for(path, env=own_environment()).size(path) for path in paths]
    if None in sizes:
        return None
    return sum(size for size in sizes if size is not None)


def _choose_step(trained: TrainedRun, request: ExportRequest, store: RecordStore) -> int:
    objects = store.objects_at(trained.output)
    newest = latest_step(objects, output=trained.output, run_name=trained.run_name)
    if newest is None:
        raise UsageError(
            f"run {trained.run_name} has no complete checkpoint.",
            fix=f"Check its progress: xsft status {trained.run_name}",
        )
    if request.step is None or request.step == newest:
        return newest
    names = objects.names(f"{trained.output}/{trained.run_name}/checkpoints")
    if f"{request.step}/" not in names:
        saved = ", ".join(sorted((n.rstrip("/") for n in names if n.rstrip("/").isdecimal()), key=int))
        raise UsageError(
            f"run {trained.run_name} has no checkpoint of step {request.step}.", fix=f"Saved steps: {saved}."
        )
    return request.step


def _plan(
    trained: TrainedRun, inputs: ExportInputs, *, output: str, first: str, directory: str, folder: str | None
) -> ExportPlan:
    return ExportPlan(
        run_name=stage_name(run_name=trained.run_name, stage=STAGE),
        output=output,
        inputs=inputs,
        first=first,
        directory=directory,
        folder=folder or directory,
        argv=export_argv(inputs, directory=folder or directory),
        trainer_argv=trained.argv,
    )


def _with_attempts(
    trained: TrainedRun, inputs: ExportInputs, *, output: str, size: int | None, folder: str | None
) -> ExportPlan:
    first = directory_of(inputs, output=output)
    storage = storage_for(first, env=own_environment())
    parent = first.rpartition("/")[0]
    paths = [f"{parent}/{name.rstrip('/')}" for name in storage.names(parent) if name.endswith("/")]
    numbered = sorted((number, path) for path in paths if (number := attempt_number(path, first=first)))
    tried = tuple(path for _, path in numbered)  # the oldest first
    records = {path: _export_record(path, storage) for path in tried}
    complete = next((path for path in tried if _is_whole(path, records[path], inputs, storage)), None)
    directory = complete or next_attempt(first, existing=tried)
    return replace(
        _plan(trained, inputs, output=output, first=first, directory=directory, folder=folder),
        weights_bytes=size,
        whole=complete,
        recorded=records[complete] if complete else next((records[path] for path in reversed(tried)), None),
        broken=tuple(path for path in tried if path != complete),
    )


def _export_record(folder: str, storage: Storage) -> ExportRecord | None:
    return from_json(storage.read(f"{folder}/{FILE}", limit=MAX_BYTES) or b"")


def _is_whole(folder: str, record: ExportRecord | None, inputs: ExportInputs, storage: Storage) -> bool:
    """Return whether the attempt is complete: its record says so, and its files have their sizes. Files on the hub are
    believed from the record."""
    if record is None or record.outcome != "completed" or record.digest != inputs.digest:
        return False
    return inputs.hub is not None or not missing_files(record, sizes=_sizes(folder, storage))


def _sizes(folder: str, storage: Storage) -> dict[str, int]:
    if not isinstance(storage, GcsStorage):
        return sizes_in(Path(folder))
    return {file.path.removeprefix(f"{folder}/"): file.size for file in storage.objects(f"{folder}/")}


def is_exported(directory: str, *, digest: str) -> bool:
    """Return whether a pod's export in this folder is complete. Raises Unreachable if it cannot be read."""
    record = _export_record(directory, storage_for(directory, env=own_environment()))
    return record is not None and record.outcome == "completed" and record.digest == digest


def sizes_in(folder: Path) -> dict[str, int]:
    """Return the bytes of each file of a model, without xsft's own."""
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}


def read_folder(folder: Path) -> tuple[dict[str, int], ReadPart]:
    """Return the sizes of a folder's files, and the function that reads them."""

    def read(name: str, start: int, count: int) -> bytes:
        with open_regular(folder / name) as file:
            file.seek(start)
            return file.read(count)

    return sizes_in(folder), read
