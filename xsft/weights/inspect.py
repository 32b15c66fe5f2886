"""Reads everything that `xsft checkpoint inspect` shows: small files and sizes, never an array."""

from __future__ import annotations

from xsft.base.errors import Unreachable, XsftError
from xsft.machine.process import own_environment
from xsft.machine.storage import Storage, storage_for
from xsft.records.record_files import RecordStore
from xsft.spec.conversion_inputs import MAX_RECORD_BYTES, RECORD_FILE, read_conversion
from xsft.weights import export_record
from xsft.weights.checkpoint_report import CheckpointReport, Writer, export_report, report_of
from xsft.weights.export_record import ExportRecord
from xsft.weights.newest import conversion_of, source_of
from xsft.weights.read_checkpoint import read_checkpoint

SAMPLED = 64
"""Maximum number of arrays without OCDBT whose own file is read; a scanned model has fewer."""


def inspect_checkpoint(path: str, *, store: RecordStore) -> CheckpointReport:
    """Return the report on the checkpoint, or on the newest one inside of the folder. Raises nothing if it is wrong or
    cannot be read: the report's status shows it."""
    counted = _open_storage(path)
    checkpoint = read_checkpoint(path, storage=counted, sampled=SAMPLED)
    if checkpoint.near is not None and checkpoint.near.startswith(f"{path}/"):
        return inspect_checkpoint(checkpoint.near, store=store)
    if checkpoint.is_hugging_face and counted is not None and (exported := _export_record(path, counted)) is not None:
        size = _stored_size(path, counted)
        return export_report(checkpoint, exported, size=size, bytes_read=counted.bytes_read)
    looked_at = checkpoint.status in ("read", "torn") and counted is not None
    size = _stored_size(path, counted) if looked_at and counted else None
    read = counted.bytes_read if counted else 0
    return report_of(
        checkpoint,
        size=size,
        bytes_read=read,
        written_by=_writer(path, store) or _converter(path, counted) or _conversion_job(path, store),
    )


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


def _open_storage(path: str) -> CountingStorage | None:
    try:
        return CountingStorage(storage_for(path, env=own_environment()))
    except Unreachable:
        return None  # `read_checkpoint` fails again and reports the reason


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


def _converter(path: str, storage: Storage | None) -> Writer | None:
    """Return the conversion that wrote the checkpoint, or None. The path is `<try>/0/items`, and the record is in the
    try's folder.
    """
    folder, marked, _ = path.rpartition("/0/items")
    try:
        content = storage.read(f"{folder}/{RECORD_FILE}", limit=MAX_RECORD_BYTES) if storage and marked else None
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
