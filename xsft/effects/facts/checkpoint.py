"""Reads the format of an initial checkpoint: a handful of small files, never an array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from xsft.checkpoint.files import (
    ARRAY_METADATA,
    METADATA,
    OCDBT_MANIFEST,
    SHARDING,
    STEP_METADATA,
    flag,
    parse_json,
    recorded_scan,
    saved_arrays,
    told_axis,
    told_scan,
)
from xsft.checkpoint.whole import COMMITTED, interrupted, lacking, uncommitted
from xsft.effects.machine.process import own_environment
from xsft.effects.records.storage import Storage, storage_for, within
from xsft.errors import Unreachable
from xsft.facts import CheckpointFacts, SavedArray

MAX_METADATA = 16 * 1024 * 1024
"""Bytes. `_METADATA` takes some 600 bytes for each array: 1.2 MB for 2,000 of them (deepseek3 unscanned)."""
DEADLINE_S = 15.0
"""From the first request: one that gets no answer in 5 s is repeated once. Imports do not count."""


def read_checkpoint(
    path: str,
    *,
    storage: Storage | None = None,
    env: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
) -> CheckpointFacts:
    """What the checkpoint at `path` is, on this machine or at gs://; answers within `deadline_s` and raises nothing.

    The time runs from the first request: on a busy machine the imports of Google's client alone take longer.
    """
    where = path.rstrip("/") or "/"
    try:
        asked = storage or storage_for(where, env=env or own_environment())
        return within(deadline_s, lambda: _look(where, asked))
    except Unreachable as failed:
        detail = f"{failed.message}. {failed.fix}".strip()
        return CheckpointFacts(path=path, status="unreadable", detail=detail)


def _look(path: str, storage: Storage) -> CheckpointFacts:
    content = storage.read(f"{path}/{METADATA}", limit=MAX_METADATA + 1)
    if content is None:
        return _absent(path, storage)
    if len(content) > MAX_METADATA:
        detail = f"{METADATA} has more than {MAX_METADATA:,} bytes and was not read"
        return CheckpointFacts(path=path, status="read", detail=detail, use_ocdbt=_has_manifest(path, storage))
    metadata = parse_json(content)
    if metadata is None:
        return CheckpointFacts(path=path, status="not-a-checkpoint", detail=f"its {METADATA} is not JSON")
    return _read(path, metadata, storage)


def _read(path: str, metadata: Mapping[str, Any], storage: Storage) -> CheckpointFacts:
    ocdbt = flag(metadata, "use_ocdbt")
    ocdbt = _has_manifest(path, storage) if ocdbt is None else ocdbt
    zarr3 = flag(metadata, "use_zarr3")
    zarr3 = _has_zarr3_array(path, storage) if zarr3 is None and not ocdbt else zarr3
    found = CheckpointFacts(path=path, status="read", use_ocdbt=ocdbt, use_zarr3=zarr3)
    return _with_layers(found, metadata, storage)


def _with_layers(found: CheckpointFacts, metadata: Mapping[str, Any], storage: Storage) -> CheckpointFacts:
    step = _json_at(f"{_step_folder(found.path)}/{STEP_METADATA}", storage)
    recorded = recorded_scan(step)
    arrays = _arrays(found.path, metadata, storage)
    scan = told_scan(array.path for array in arrays) if recorded is None else recorded
    axis = told_axis(arrays) if scan else None
    torn = _torn(found, arrays, step, storage)
    return replace(
        found,
        status="torn" if torn else found.status,
        detail=torn or found.detail,
        scan_layers=scan,
        scan_recorded=recorded is not None,
        param_scan_axis=axis,
        arrays=arrays,
    )


def _step_folder(path: str) -> str:
    """The folder that holds all items of one save."""
    parent, _, last = path.rpartition("/")
    return parent if f"{last}/" in _ITEMS or last == OPTIMIZER else path


def _torn(
    found: CheckpointFacts, arrays: tuple[SavedArray, ...], step: Mapping[str, Any], storage: Storage
) -> str | None:
    """Why the save did not end, or None: one list of names, and where that leaves a doubt the commit's marker."""
    told = interrupted(found.path)
    told = told or lacking(arrays, storage.names(found.path), ocdbt=found.use_ocdbt)
    if told or not uncommitted(step):
        return told
    folders = (found.path, _step_folder(found.path))
    marked = any(storage.read(f"{folder}/{COMMITTED}", limit=1) is not None for folder in folders)
    return None if marked else f"its {STEP_METADATA} names no time of a commit, and there is no {COMMITTED}"


def _arrays(path: str, metadata: Mapping[str, Any], storage: Storage) -> tuple[SavedArray, ...]:
    """An older Orbax wrote the shapes into a file of their own, or nowhere."""
    sharding = _json_at(f"{path}/{SHARDING}", storage)
    arrays = saved_arrays(metadata, sharding=sharding, array_metadata={})
    if not arrays or any(array.piece is not None for array in arrays):
        return arrays
    return saved_arrays(metadata, sharding=sharding, array_metadata=_json_at(f"{path}/{ARRAY_METADATA}", storage))


def _json_at(path: str, storage: Storage) -> dict[str, Any]:
    content = storage.read(path, limit=MAX_METADATA)
    return (parse_json(content) if content else None) or {}


def _has_manifest(path: str, storage: Storage) -> bool:
    return storage.read(f"{path}/{OCDBT_MANIFEST}", limit=1) is not None


def _has_zarr3_array(path: str, storage: Storage) -> bool | None:
    """Without OCDBT every array is a folder; `zarr.json` or `.zarray` in the first one tells the version."""
    for folder in (name for name in storage.names(path) if name.endswith("/") and "." in name):
        files = storage.names(f"{path}/{folder.rstrip('/')}")
        if "zarr.json" in files or ".zarray" in files:
            return "zarr.json" in files
    return None


_ITEMS = ("items/", "model_params/")
"""Folders that hold a model: of a conversion, and of a run's own checkpoints."""
OPTIMIZER = "optimizer_state"
_MAX_DEPTH = 3


def _absent(path: str, storage: Storage) -> CheckpointFacts:
    """No `_METADATA`: say what lies there, and where a checkpoint lies instead."""
    names = storage.names(path)
    near = _inside(path, names, storage, depth=0)
    if names:
        meant = f"; a checkpoint lies at {near}" if near else _hugging_face(names)
        detail = f"{_listed(names)} without {METADATA}{meant}"
        return CheckpointFacts(path=path, status="not-a-checkpoint", detail=detail)
    parent, _, last = path.rpartition("/")
    beside = _beside(parent, storage) if f"{last}/" in _ITEMS else None
    detail = f"a checkpoint lies at {beside}" if beside else "nothing is there"
    return CheckpointFacts(path=path, status="missing", detail=detail)


def _beside(parent: str, storage: Storage) -> str | None:
    """`<dir>/items` where `<dir>/0/items` is meant, or the other kind of folder."""
    if not parent.removeprefix("gs://").strip("/"):
        return None
    return _inside(parent, storage.names(parent), storage, depth=0)


def _inside(path: str, names: tuple[str, ...], storage: Storage, *, depth: int) -> str | None:
    """The newest checkpoint below `path`, or None."""
    for item in _ITEMS:
        if item in names and storage.read(f"{path}/{item}{METADATA}", limit=1) is not None:
            return f"{path}/{item.rstrip('/')}"
    steps = sorted((n for n in names if n.rstrip("/").isdigit() and n.endswith("/")), key=lambda n: int(n[:-1]))
    below = (*reversed(steps[-1:]), *(n for n in names if n == "checkpoints/"))
    for name in below if depth < _MAX_DEPTH else ():
        folder = f"{path}/{name.rstrip('/')}"
        found = _inside(folder, storage.names(folder), storage, depth=depth + 1)
        if found:
            return found
    return None


def _hugging_face(names: tuple[str, ...]) -> str:
    has_weights = any(name.endswith((".safetensors", ".safetensors.index.json")) for name in names)
    return ": these are Hugging Face weights, which model.hf converts" if has_weights else ""


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return f"it holds {shown}" + (f" and {len(names) - 5} more" if len(names) > 5 else "")
