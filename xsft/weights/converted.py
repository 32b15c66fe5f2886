"""Finds which conversion wrote a checkpoint, by the records of the runs beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xsft.base.errors import XsftError
from xsft.records import CONVERSION_KEY
from xsft.records.record import Record
from xsft.records.record_files import RecordStore
from xsft.spec.conversion_inputs import is_commit, items

SUFFIX = "-convert/"
"""Suffix of the folders of conversions; source: xsft.trainer.conversion, STAGE."""
MAX_RUNS = 20
"""Maximum number of runs whose records are read; each is a few requests."""


def conversion_of(path: str, store: RecordStore) -> Record | None:
    """Return the record of the run that wrote `<output>/converted/<try>/0/items`, or None if no run recorded it.
    A job of a cluster leaves nothing beside its result.
    """
    output, marked, _ = path.rpartition("/converted/")
    if not marked:
        return None
    try:
        names = [name for name in store.objects_at(output).names(output) if name.endswith(SUFFIX)]
        runs = (store.read_run(output, name.rstrip("/")) for name in names[:MAX_RUNS])
        return next((record for records in runs for record in reversed(records) if writes(record) == path), None)
    except XsftError:
        return None


def writes(record: Record) -> str | None:
    """Return the checkpoint that a conversion writes, or None for a training."""
    made = record.last.resolved.get("writes")
    if isinstance(made, str):
        return made
    directory = _mapping_or_empty(record.spec.get(CONVERSION_KEY)).get("directory")
    return items(directory) if isinstance(directory, str) else None


def source_of(record: Record) -> str:
    """Return the weights that a job of a cluster converted, with their commit if it named one."""
    repo = str(_mapping_or_empty(_mapping_or_empty(record.spec.get("model")).get("hf")).get("repo", ""))
    revision = next((one.partition("=")[2] for one in record.last.argv if one.startswith("--revision=")), None)
    return f"{repo}@{revision}" if is_commit(revision) else repo


def _mapping_or_empty(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
