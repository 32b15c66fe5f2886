"""Check by names and markers whether a checkpoint was saved completely. Pure.

source: orbax-checkpoint@0.12.8 _src/path/atomicity.py (rename of a temporary folder, or a commit file) and
_src/path/atomicity_types.py (TMP_DIR_SUFFIX, COMMIT_SUCCESS_FILE); _src/metadata/step_metadata_serialization.py
(`commit_timestamp_nsecs`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from xsft.spec.facts import SavedArray
from xsft.weights.checkpoint_files import OCDBT_MANIFEST, OWN

TEMPORARY = ".orbax-checkpoint-tmp"
"""Part of the name of a folder that is being written, or whose writer was killed."""
COMMITTED = "commit_success.txt"
"""Marker written last in buckets, where folders cannot be renamed."""


def interrupted(path: str) -> str | None:
    """Return why a checkpoint at this path is incomplete; None if its name does not show it."""
    part = next((part for part in path.split("/") if TEMPORARY in part), None)
    return None if part is None else f"{part} is a temporary folder of an interrupted save"


def uncommitted(step_metadata: Mapping[str, Any]) -> bool:
    """Return whether the step lacks its commit time, which Orbax writes last; False without the file."""
    return "commit_timestamp_nsecs" in step_metadata and not step_metadata["commit_timestamp_nsecs"]


def missing_arrays(arrays: Sequence[SavedArray], names: Collection[str], *, ocdbt: bool | None) -> str | None:
    """Return the first difference between its own list of arrays and the folder, or None. `names`: with OCDBT all
    entries of the folder, else the folders that contain an array's own file.
    """
    if ocdbt:
        return None if OCDBT_MANIFEST in names else f"{OCDBT_MANIFEST} is missing, which is written last"
    folders = {name.rstrip("/") for name in names}
    absent = [name for array in arrays if (name := ".".join(array.path)) not in folders]
    if not absent:
        return None
    return f"{len(absent)} of {len(arrays)} arrays are missing or have no {' or '.join(OWN)}, e.g. {absent[0]}"
