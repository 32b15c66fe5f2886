"""Describes the content of a path without a checkpoint, and finds a checkpoint nearby."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xsft.machine.storage import Storage
from xsft.spec.facts import CheckpointFacts
from xsft.weights.checkpoint_files import COMMITTED, METADATA, STEP_METADATA, interrupted, uncommitted
from xsft.weights.read_arrays import json_at

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
    holds = _list_contents(names) if names else ("it is a file" if storage.read(path, limit=1) is not None else "")
    weights = checkpoint is None and bool(holds) and _is_hugging_face(names or (path.rpartition("/")[2],))
    hint = f"; there is a checkpoint at {checkpoint}" if checkpoint else TO_CONVERT if weights else ""
    if holds:
        detail = f"{holds} without {METADATA}{hint}"
        return CheckpointFacts(
            path=path, status="not-a-checkpoint", detail=detail, near=checkpoint, is_hugging_face=weights
        )
    return CheckpointFacts(path=path, status="missing", detail=f"not found{hint}", near=checkpoint)


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
    for folder in _parent_folders(path):
        if storage.read(f"{folder}/{METADATA}", limit=1) is not None:
            return folder
        if names := storage.names(folder):
            return _checkpoint_below(folder, names, storage, depth=0)
    return None


def _parent_folders(path: str) -> Iterator[str]:
    """Yield the parent folders, the nearest first; never a bucket or the root, which other users share."""
    for _ in range(_UP):
        path = path.rpartition("/")[0]
        if "/" not in path.removeprefix("gs://").strip("/"):
            return
        yield path


def _checkpoint_below(path: str, names: tuple[str, ...], storage: Storage, *, depth: int) -> str | None:
    """Return the newest complete checkpoint below `path`, or None."""
    for item in ITEMS:
        folder_of_item = f"{path}/{item.rstrip('/')}"
        if item in names and storage.read(f"{folder_of_item}/{METADATA}", limit=1) is not None:
            return None if _uncommitted_reason(path, storage) else folder_of_item
    for name in _names_to_search(names) if depth < _DOWN else ():
        folder = f"{path}/{name.rstrip('/')}"
        if found_below := _checkpoint_below(folder, storage.names(folder), storage, depth=depth + 1):
            return found_below
    return None


def _names_to_search(names: tuple[str, ...]) -> Iterator[str]:
    yield from _newest_steps(names)
    yield from (name for name in names if name == "checkpoints/")


def _newest_steps(names: tuple[str, ...]) -> list[str]:
    """Return the folders of the newest steps, the newest first."""
    steps = (name for name in names if name.endswith("/") and name[:-1].isascii() and name[:-1].isdecimal())
    return sorted(steps, key=lambda name: int(name[:-1]), reverse=True)[:_NEWEST]


def _is_hugging_face(names: tuple[str, ...]) -> bool:
    """Return whether it is a folder of weights, or a repository in the hub's cache."""
    return {"blobs/", "snapshots/"} <= set(names) or any(name.endswith(_HUGGING_FACE) for name in names)


_HUGGING_FACE = (".safetensors", ".safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


def _list_contents(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return f"it contains {shown}" + (f" and {len(names) - 5} more" if len(names) > 5 else "")
