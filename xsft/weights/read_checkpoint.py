"""Reads the format of an initial checkpoint: a handful of small files, never an array. Of a path without a checkpoint
it says what is there, and finds a checkpoint nearby."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from xsft.base.errors import Unreachable
from xsft.machine.process import own_environment
from xsft.machine.storage import DEADLINE_S, Storage, storage_for
from xsft.spec.facts import CheckpointFacts
from xsft.weights.checkpoint_files import (
    COMMITTED,
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
    uncommitted,
)
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
    if ocdbt is None:
        ocdbt = _has_manifest(path, storage)
    zarr3 = flag(metadata, "use_zarr3")
    if zarr3 is None and not ocdbt:
        zarr3 = _has_zarr3_array(path, storage)
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
    names = storage.names(checkpoint.path) if checkpoint.use_ocdbt else storage.folders_with(checkpoint.path, OWN)
    torn = (
        interrupted(checkpoint.path)
        or missing_arrays(read.arrays, names, ocdbt=checkpoint.use_ocdbt)
        or read.lost
        or no_commit(folder, step, storage, item=checkpoint.path)
    )
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


ITEMS = ("items/", "model_params/")
"""Folders that hold a model: of a conversion, and of a run's own checkpoints."""
OPTIMIZER = "optimizer_state"
_DOWN = 3
"""Levels searched below a folder: run, checkpoints, step."""
_UP = 3
"""Levels searched above: item, step, checkpoints."""
TO_CONVERT = ": these are Hugging Face weights; set model.hf and run `xsft checkpoint convert FILE`"
_NEWEST = 3
"""Maximum number of steps searched for a complete one."""
_HUGGING_FACE = (".safetensors", ".safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


def absent_checkpoint(path: str, storage: Storage) -> CheckpointFacts:
    """Return the facts for a path without `_METADATA`: an unfinished save, something else, or nothing. Raises
    Unreachable.
    """
    names = storage.names(path)
    torn = interrupted(path) or (_uncommitted_reason(step_folder(path), storage) if names else None)
    if torn:
        return CheckpointFacts(path=path, status="torn", detail=torn)
    inside = _checkpoint_below(path, names, storage, depth=0)
    if inside is None and (cut_off := _interrupted_below(path, names, storage)):
        return CheckpointFacts(path=path, status="torn", detail=f"{cut_off}, and no other save is beside it")
    checkpoint = inside or _checkpoint_around(path, storage)
    hint = f"; there is a checkpoint at {checkpoint}" if checkpoint else ""
    if not names and storage.read(path, limit=1) is None:
        return CheckpointFacts(path=path, status="missing", detail=f"not found{hint}", near=checkpoint)
    contents = f"it contains {', '.join(names[:5])}" if names else "it is a file"
    if len(names) > 5:
        contents = f"{contents} and {len(names) - 5} more"
    # A folder of weights, a repository in the hub's cache, or a file of weights.
    is_repository = {"blobs/", "snapshots/"} <= set(names)
    weights = is_repository or any(name.endswith(_HUGGING_FACE) for name in names or (path.rpartition("/")[2],))
    if checkpoint is None and weights:
        hint = TO_CONVERT
    return CheckpointFacts(
        path=path,
        status="not-a-checkpoint",
        detail=f"{contents} without {METADATA}{hint}",
        near=checkpoint,
        is_hugging_face=checkpoint is None and weights,
    )


def step_folder(path: str) -> str:
    """Return the folder that holds all items of one save."""
    parent, _, last = path.rpartition("/")
    return parent if f"{last}/" in ITEMS or last == OPTIMIZER else path


def no_commit(
    folder: str, step_metadata: Mapping[str, Any], storage: Storage, *, item: str | None = None
) -> str | None:
    """Return why the save of the step in `folder` is unfinished; None if nothing shows that. `item`: the part of it
    that was read; of a bucket MaxText before 0.2.5 asks that folder for the marker.
    """
    unfinished = uncommitted(step_metadata)
    in_bucket = folder.startswith("gs://") and item is not None
    if not (unfinished or in_bucket) or storage.read(f"{folder}/{COMMITTED}", limit=1) is not None:
        return None
    if unfinished:
        return f"its {STEP_METADATA} has no commit time, and {COMMITTED} is missing"
    if storage.read(f"{item}/{COMMITTED}", limit=1) is not None:
        return None
    mend = f"echo copied | gcloud storage cp - {folder}/{COMMITTED}"
    return f"{folder} has no {COMMITTED}, which Orbax asks for in a bucket; if it was copied whole from a disk: {mend}"


def _uncommitted_reason(folder: str, storage: Storage) -> str | None:
    return no_commit(folder, json_at(f"{folder}/{STEP_METADATA}", storage), storage)


def _interrupted_below(path: str, names: tuple[str, ...], storage: Storage) -> str | None:
    """Return why a save in this folder is unfinished: its name says so on a disk, its missing marker in a bucket."""
    for name in names:
        if reason := interrupted(name.rstrip("/")):
            return reason
    unfinished = ((step, _uncommitted_reason(f"{path}/{step.rstrip('/')}", storage)) for step in _newest_steps(names))
    return next((f"in {step} {reason}" for step, reason in unfinished if reason), None)


def _checkpoint_around(path: str, storage: Storage) -> str | None:
    """Return the checkpoint that contains the path, or one below the nearest parent folder that has any entry."""
    folder = path
    for _ in range(_UP):
        folder = folder.rpartition("/")[0]
        if "/" not in folder.removeprefix("gs://").strip("/"):  # a bucket or the root, which other users share
            return None
        if storage.read(f"{folder}/{METADATA}", limit=1) is not None:
            return folder
        if names := storage.names(folder):
            return _checkpoint_below(folder, names, storage, depth=0)
    return None


def _checkpoint_below(path: str, names: tuple[str, ...], storage: Storage, *, depth: int) -> str | None:
    """Return the newest complete checkpoint below `path`, or None."""
    for item in ITEMS:
        folder_of_item = f"{path}/{item.rstrip('/')}"
        if item in names and storage.read(f"{folder_of_item}/{METADATA}", limit=1) is not None:
            # A save that did not end is no offer; an older one beside it may be.
            return None if _uncommitted_reason(path, storage) else folder_of_item
    folders = (*_newest_steps(names), *(name for name in names if name == "checkpoints/"))
    for name in folders if depth < _DOWN else ():
        folder = f"{path}/{name.rstrip('/')}"
        if checkpoint := _checkpoint_below(folder, storage.names(folder), storage, depth=depth + 1):
            return checkpoint
    return None


def _newest_steps(names: tuple[str, ...]) -> list[str]:
    """Return the folders of the newest steps, the newest first."""
    steps = (name for name in names if name.endswith("/") and name[:-1].isascii() and name[:-1].isdecimal())
    return sorted(steps, key=lambda name: int(name[:-1]), reverse=True)[:_NEWEST]
