"""Whether a checkpoint was saved to its end, told from names and markers. Pure.

source: orbax-checkpoint@0.12.8 _src/path/atomicity.py (rename of a temporary folder, or a commit file) and
_src/path/atomicity_types.py (TMP_DIR_SUFFIX, COMMIT_SUCCESS_FILE); _src/metadata/step_metadata_serialization.py
(`commit_timestamp_nsecs`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from xsft.checkpoint.files import OCDBT_MANIFEST, OWN
from xsft.facts import SavedArray

TEMPORARY = ".orbax-checkpoint-tmp"
"""In the name of a folder that is still being written, or was left by a writer that was killed."""
COMMITTED = "commit_success.txt"
"""Written last, where folders cannot be renamed: in buckets."""


def interrupted(path: str) -> str | None:
    """Why a checkpoint at this path was not saved to its end; None where its name does not tell."""
    part = next((part for part in path.split("/") if TEMPORARY in part), None)
    return None if part is None else f"{part} is a temporary folder of a save that did not end"


def uncommitted(step_metadata: Mapping[str, Any]) -> bool:
    """Orbax writes the time of the commit when it finishes a step; a step without the file says nothing."""
    return "commit_timestamp_nsecs" in step_metadata and not step_metadata["commit_timestamp_nsecs"]


def lacking(arrays: Sequence[SavedArray], names: Collection[str], *, ocdbt: bool | None) -> str | None:
    """Return what its own list of arrays names and the folder lacks, or None. `names`: with OCDBT of all entries of the
    folder, else of the folders that hold an array's own file."""
    if ocdbt:
        return None if OCDBT_MANIFEST in names else f"{OCDBT_MANIFEST} is missing, which is written last"
    folders = {name.rstrip("/") for name in names}
    absent = [name for array in arrays if (name := ".".join(array.path)) not in folders]
    if not absent:
        return None
    return f"{len(absent)} of {len(arrays)} arrays are missing or have no {' or '.join(OWN)}, e.g. {absent[0]}"
