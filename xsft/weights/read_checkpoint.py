"""Reads the format of an initial checkpoint: a handful of small files, never an array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from xsft.base.errors import Unreachable
from xsft.machine.process import own_environment
from xsft.machine.storage import DEADLINE_S, Storage, storage_for
from xsft.spec.facts import CheckpointFacts
from xsft.weights.checkpoint_files import (
    METADATA,
    OCDBT_MANIFEST,
    OWN,
    STEP_METADATA,
    flag,
    infer_scan_axis,
    infer_scan_layers,
    interrupted,
    missing_arrays,
    parse_json,
    recorded_scan,
)
from xsft.weights.near import absent_checkpoint, no_commit, step_folder
from xsft.weights.read_arrays import MAX_METADATA, ReadArrays, json_at, read_arrays

SAMPLED = 4
"""Number of arrays without OCDBT that are read for a check, each from its own file; each is a request."""


def read_checkpoint(
    path: str,
    *,
    storage: Storage | None = None,
    env: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
    sampled: int = SAMPLED,
) -> CheckpointFacts:
    """Return the facts of the checkpoint at `path`, on this machine or at gs://. Raises nothing. `deadline_s`: for each
    request, from the moment it is sent: on a busy machine the imports of Google's client alone take longer.
    """
    where = path.rstrip("/") or "/"
    try:
        return _look_at_metadata(
            where, storage or storage_for(where, env=env or own_environment(), deadline_s=deadline_s), sampled
        )
    except Unreachable as failed:
        detail = f"{failed.clause}. {failed.fix}".strip()
        return CheckpointFacts(path=path, status="unreadable", detail=detail)


def _look_at_metadata(path: str, storage: Storage, sampled: int) -> CheckpointFacts:
    content = storage.read(f"{path}/{METADATA}", limit=MAX_METADATA + 1)
    if content is None:
        return absent_checkpoint(path, storage)
    if len(content) > MAX_METADATA:
        detail = f"{METADATA} has more than {MAX_METADATA:,} bytes and was not read"
        return CheckpointFacts(path=path, status="read", detail=detail, use_ocdbt=_has_manifest(path, storage))
    metadata = parse_json(content)
    if metadata is None:
        return CheckpointFacts(path=path, status="not-a-checkpoint", detail=f"its {METADATA} is not JSON")
    return _read_layout(path, metadata, storage, sampled)


def _read_layout(path: str, metadata: Mapping[str, Any], storage: Storage, sampled: int) -> CheckpointFacts:
    ocdbt = flag(metadata, "use_ocdbt")
    ocdbt = _has_manifest(path, storage) if ocdbt is None else ocdbt
    zarr3 = flag(metadata, "use_zarr3")
    zarr3 = _has_zarr3_array(path, storage) if zarr3 is None and not ocdbt else zarr3
    checkpoint = CheckpointFacts(path=path, status="read", use_ocdbt=ocdbt, use_zarr3=zarr3)
    arrays = read_arrays(path, metadata, storage, with_ocdbt=ocdbt, sampled=sampled)
    if not arrays.arrays:
        return CheckpointFacts(path=path, status="not-a-checkpoint", detail=f"its {METADATA} lists no arrays")
    return _with_layers(checkpoint, arrays, storage)


def _with_layers(checkpoint: CheckpointFacts, read: ReadArrays, storage: Storage) -> CheckpointFacts:
    folder = step_folder(checkpoint.path)
    step = json_at(f"{folder}/{STEP_METADATA}", storage)
    recorded = recorded_scan(step)
    scan = infer_scan_layers([array.path for array in read.arrays]) if recorded is None else recorded
    axis = infer_scan_axis(read.arrays) if scan else None
    torn = _incomplete_reason(checkpoint, read, storage) or no_commit(folder, step, storage, item=checkpoint.path)
    return replace(
        checkpoint,
        status="torn" if torn else checkpoint.status,
        detail=torn or checkpoint.detail,
        scan_layers=scan,
        scan_recorded=recorded is not None,
        param_scan_axis=axis,
        arrays=read.arrays,
        dtypes_detail=read.detail,
    )


def _incomplete_reason(checkpoint: CheckpointFacts, read: ReadArrays, storage: Storage) -> str | None:
    """Return why the checkpoint is incomplete, or None."""
    reason = interrupted(checkpoint.path)
    names = storage.names(checkpoint.path) if checkpoint.use_ocdbt else storage.folders_with(checkpoint.path, OWN)
    return reason or missing_arrays(read.arrays, names, ocdbt=checkpoint.use_ocdbt) or read.lost


def _has_manifest(path: str, storage: Storage) -> bool:
    return storage.read(f"{path}/{OCDBT_MANIFEST}", limit=1) is not None


def _has_zarr3_array(path: str, storage: Storage) -> bool | None:
    """Return whether the arrays are Zarr 3. Without OCDBT every array is a folder; `zarr.json` or `.zarray` in the
    first one shows the version.
    """
    for folder in (name for name in storage.names(path) if name.endswith("/") and "." in name):
        files = storage.names(f"{path}/{folder.rstrip('/')}")
        if "zarr.json" in files or ".zarray" in files:
            return "zarr.json" in files
    return None
