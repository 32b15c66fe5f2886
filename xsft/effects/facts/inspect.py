"""Reads all that `xsft checkpoint inspect` tells: small files and sizes, never an array."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xsft.checkpoint.files import parse_json
from xsft.checkpoint.report import Dtypes, Report, Writer, report
from xsft.effects.environments import environments
from xsft.effects.facts import stored_dtypes
from xsft.effects.facts.checkpoint import read_checkpoint
from xsft.effects.machine import process
from xsft.effects.machine.process import own_environment
from xsft.effects.records.records import RecordStore
from xsft.effects.records.storage import Storage, storage_for
from xsft.errors import Unreachable, XsftError
from xsft.facts import CheckpointFacts, SavedArray

DTYPES_OF = 64
"""Arrays whose own file is read for the dtype, at most; a scanned model has fewer."""
MAX_ARRAY_FILE = 64 * 1024
STORE_TIMEOUT_S = 60
WORKER = Path(stored_dtypes.__file__)


def inspect(path: str, *, store: RecordStore) -> Report:
    """Raises nothing for what lies there or cannot be read: the report's status tells."""
    counted = _opened(path)
    found = read_checkpoint(path, storage=counted)
    looked_at = found.status in ("read", "torn") and counted is not None
    dtypes = _dtypes(found, counted) if looked_at and counted else Dtypes(names=None, why=found.detail)
    size = _size(path, counted) if looked_at and counted else None
    read = counted.bytes_read if counted else 0
    return report(found, dtypes=dtypes, size=size, bytes_read=read, written_by=_writer(path, store))


class CountingStorage:
    """A storage that knows how much was read through it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.bytes_read = 0

    def read(self, path: str, *, limit: int) -> bytes | None:
        content = self._storage.read(path, limit=limit)
        self.bytes_read += len(content or b"")
        return content

    def names(self, folder: str) -> tuple[str, ...]:
        return self._storage.names(folder)

    def size(self, folder: str) -> int | None:
        return self._storage.size(folder)


def _opened(path: str) -> CountingStorage | None:
    try:
        return CountingStorage(storage_for(path, env=own_environment()))
    except Unreachable:
        return None  # `read_checkpoint` meets it again, and says why


def _size(path: str, storage: CountingStorage) -> int | None:
    try:
        return storage.size(path.rstrip("/"))
    except Unreachable:
        return None


def _dtypes(found: CheckpointFacts, storage: CountingStorage) -> Dtypes:
    if found.use_ocdbt:
        return _from_store(found.path)
    chosen = found.arrays[:DTYPES_OF]
    try:
        names = {_dtype(found, array, storage) for array in chosen}
    except Unreachable as failed:
        return Dtypes(names=None, why=failed.message)
    if not names or None in names:
        return Dtypes(names=None, why="no .zarray or zarr.json beside each array tells it")
    why = f"of {len(chosen)} of {len(found.arrays)} arrays" if len(chosen) < len(found.arrays) else ""
    return Dtypes(names=tuple(sorted(str(name) for name in names)), why=why)


def _dtype(found: CheckpointFacts, array: SavedArray, storage: CountingStorage) -> str | None:
    folder = f"{found.path.rstrip('/')}/{'.'.join(array.path)}"
    files = ("zarr.json", ".zarray") if found.use_zarr3 else (".zarray", "zarr.json")
    contents = (storage.read(f"{folder}/{file}", limit=MAX_ARRAY_FILE) for file in files)
    content = next((one for one in contents if one is not None), None)
    return stored_dtypes.dtype_of(parse_json(content) or {}) if content else None


def _from_store(path: str) -> Dtypes:
    """OCDBT keeps these files inside its store, which MaxText's environment can open."""
    maxtext = environments.find("maxtext")
    if maxtext is None:
        return Dtypes(names=None, why="with OCDBT they are inside the store: `xsft setup maxtext` gives what reads it")
    argv = (str(maxtext.python), "-I", str(WORKER), path)
    try:
        done = process.run(argv, env=own_environment(), cwd=Path("/"), timeout_s=STORE_TIMEOUT_S)
    except XsftError as failed:
        return Dtypes(names=None, why=f"the store could not be opened: {failed}")
    said = _last_json(done.stdout.splitlines()) if done.ok else None
    if said is None:
        return Dtypes(names=None, why=f"the store could not be opened: {_last(done.stderr)}")
    return Dtypes(names=tuple(said["dtypes"]), why=str(said["why"]), bytes_read=int(said["bytes_read"]))


def _last_json(lines: Sequence[str]) -> Mapping[str, Any] | None:
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")[:300]


def _writer(path: str, store: RecordStore) -> Writer | None:
    """`<output>/<run_name>/checkpoints/<step>/<item>`: the record lies beside the run's output."""
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
