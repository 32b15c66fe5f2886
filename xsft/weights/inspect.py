"""Finds the checkpoint that a user names, and reads everything that `xsft checkpoint inspect` shows: small files and
sizes, never an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xsft.base.errors import Unreachable, UsageError, XsftError
from xsft.machine.objects import latest_step
from xsft.machine.process import own_environment
from xsft.machine.storage import Storage, storage_for
from xsft.records import CONVERSION_KEY
from xsft.records.record import Record
from xsft.records.record_files import RecordStore
from xsft.spec.conversion_inputs import MAX_RECORD_BYTES, RECORD_FILE, is_commit, items, read_conversion
from xsft.weights import export_record
from xsft.weights.checkpoint_report import CheckpointReport, Writer, export_report, report_of
from xsft.weights.export_record import ExportRecord
from xsft.weights.read_checkpoint import read_checkpoint

SUFFIX = "-convert/"
"""Suffix of the folders of conversions; source: xsft.trainer.arguments, STAGE."""
MAX_RUNS = 20
"""Maximum number of runs whose records are read; each is a few requests."""
SAMPLED = 64
"""Maximum number of arrays without OCDBT whose own file is read; a scanned model has fewer."""


def inspect_checkpoint(path: str, *, store: RecordStore) -> CheckpointReport:
    """Return the report on the checkpoint, or on the newest one inside of the folder. Raises nothing if it is wrong or
    cannot be read: the report's status shows it."""
    try:
        counted = CountingStorage(storage_for(path, env=own_environment()))
    except Unreachable:  # `read_checkpoint` fails again and reports the reason
        writer = _writer(path, store) or _conversion_job(path, store)
        return report_of(read_checkpoint(path, sampled=SAMPLED), size=None, bytes_read=0, written_by=writer)
    checkpoint = read_checkpoint(path, storage=counted, sampled=SAMPLED)
    if checkpoint.near is not None and checkpoint.near.startswith(f"{path}/"):
        return inspect_checkpoint(checkpoint.near, store=store)
    if checkpoint.is_hugging_face and (exported := _export_record(path, counted)) is not None:
        size = _stored_size(path, counted)
        return export_report(checkpoint, exported, size=size, bytes_read=counted.bytes_read)
    size = _stored_size(path, counted) if checkpoint.status in ("read", "torn") else None
    written_by = _writer(path, store) or _converter(path, counted) or _conversion_job(path, store)
    return report_of(checkpoint, size=size, bytes_read=counted.bytes_read, written_by=written_by)


class CountingStorage:
    """A storage that counts how much was read through it, by any thread."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._sizes: list[int] = []

    @property
    def bytes_read(self) -> int:
        return sum(self._sizes)

    def read(self, path: str, *, limit: int, start: int = 0) -> bytes | None:
        content = self._storage.read(path, limit=limit, start=start)
        self._sizes.append(len(content or b""))
        return content

    def names(self, folder: str) -> tuple[str, ...]:
        return self._storage.names(folder)

    def folders_with(self, folder: str, files: tuple[str, ...]) -> tuple[str, ...]:
        return self._storage.folders_with(folder, files)

    def size(self, folder: str) -> int | None:
        return self._storage.size(folder)


def _stored_size(path: str, storage: CountingStorage) -> int | None:
    try:
        return storage.size(path.rstrip("/"))
    except Unreachable:
        return None


def _export_record(path: str, storage: Storage) -> ExportRecord | None:
    """Return the record of the export that wrote the folder; None if xsft did not write it."""
    try:
        return export_record.from_json(
            storage.read(f"{path}/{export_record.FILE}", limit=export_record.MAX_BYTES) or b""
        )
    except Unreachable:
        return None


def _converter(path: str, storage: Storage) -> Writer | None:
    """Return the conversion that wrote the checkpoint, or None. The path is `<try>/0/items`, and the record is in the
    try's folder.
    """
    folder, marked, _ = path.rpartition("/0/items")
    try:
        content = storage.read(f"{folder}/{RECORD_FILE}", limit=MAX_RECORD_BYTES) if marked else None
    except Unreachable:
        return None
    record = read_conversion(content) if content else None
    if record is None:
        return None
    source = record.inputs.get("source")
    repo = str(source.get("repo", "")) if isinstance(source, dict) else ""
    return Writer(
        run_name=record.run_name, spec_digest=record.digest, source=f"{repo}@{record.commit}" if record.commit else repo
    )


def _conversion_job(path: str, store: RecordStore) -> Writer | None:
    """Return the conversion on a cluster that wrote it."""
    record = conversion_of(path, store)
    if record is None:
        return None
    return Writer(run_name=record.run_name, spec_digest=record.spec_digest, source=source_of(record))


def _writer(path: str, store: RecordStore) -> Writer | None:
    """Return the run that wrote the checkpoint, or None. The path is `<output>/<run_name>/checkpoints/<step>/<item>`,
    and the record is beside the run's output.
    """
    run, marked, _ = path.rpartition("/checkpoints/")
    output, _, run_name = run.rpartition("/")
    if not (marked and output and run_name):
        return None
    try:
        records = store.read_run(output, run_name)
    except XsftError:
        return None
    last = records[-1] if records else None
    return Writer(run_name=run_name, spec_digest=last.spec_digest, steps=last.steps) if last else None


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


def conversion_of(path: str, store: RecordStore) -> Record | None:
    """Return the record of the run that wrote `<output>/converted/<try>/0/items`, or None if no run recorded it.
    A job of a cluster leaves nothing beside its result.
    """
    output, marked, _ = path.rpartition("/converted/")
    if not marked:
        return None
    try:
        names = [name for name in store.objects_at(output).names(output) if name.endswith(SUFFIX)]
        for name in names[:MAX_RUNS]:
            for record in reversed(store.read_run(output, name.rstrip("/"))):
                if writes(record) == path:
                    return record
    except XsftError:  # the report does without the writer
        return None
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
