"""Finds the result of a conversion, among its tries. Reads small files only."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from xsft.base.errors import Unreachable
from xsft.base.names import attempt_number
from xsft.base.problems import errors_in
from xsft.checks import checkpoint
from xsft.checks.facts import Facts
from xsft.machine.process import own_environment
from xsft.machine.storage import DEADLINE_S, storage_for
from xsft.spec.conversion_inputs import (
    MAX_RECORD_BYTES,
    RECORD_FILE,
    ConversionRecord,
    items,
    read_conversion,
)
from xsft.spec.facts import CheckpointFacts, TriesFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve
from xsft.trainer.trainer import trainer_of

OWN = "xsft/"
"""Folder of a try that holds its record; MaxText's result is beside it."""

ReadCheckpoint = Callable[[str], CheckpointFacts]
ListNames = Callable[[str], tuple[str, ...]]


def folder_names(folder: str) -> tuple[str, ...]:
    """Return the names in the folder. Raises Unreachable, within seconds, if it cannot be read."""
    return storage_for(folder, env=own_environment(), deadline_s=DEADLINE_S).names(folder)


def read_small(path: str) -> bytes | None:
    """Return the content; None if there is no such file. Raises Unreachable, within seconds, if it cannot be read."""
    return storage_for(path, env=own_environment(), deadline_s=DEADLINE_S).read(path, limit=MAX_RECORD_BYTES)


def with_tries(spec: WorkloadSpec, facts: Facts, *, look: ReadCheckpoint, names: ListNames = folder_names) -> Facts:
    """Return the facts of the first complete try, else of the newest incomplete one, else that there is no try."""
    run, _ = resolve(spec, facts)
    first = run.converted
    if first is None or run.conversion is None:
        return facts
    parent, _, _ = first.rpartition("/")
    try:
        beside = tuple(f"{parent}/{name.rstrip('/')}" for name in names(parent) if name.endswith("/"))
        tried = sorted((number, path) for path in beside if (number := attempt_number(path, first=first)))
        records = {path: read_conversion(read_small(f"{path}/{RECORD_FILE}") or b"") for _, path in tried}
        # If no kernel option ties the converter to xsft, it continues after xsft was killed.
        running = {path for path, record in records.items() if record is not None and record.outcome == "running"}
        used = tuple(path for _, path in tried if set(names(path)) - {OWN} or path in running)
    except Unreachable as failed:
        detail = f"{failed.clause}. {failed.fix}".strip()
        return replace(facts, checkpoint=CheckpointFacts(path=items(first), status="unreadable", detail=detail))
    checkpoints: dict[str, CheckpointFacts] = {}
    for path in used:
        record = records[path]
        # A folder that the user named may hold a conversion of other weights.
        if record is None or record.digest == run.conversion.digest:
            checkpoints[path] = _judge_tries(look(items(path)), record, spec, facts)
    broken = tuple(path for path, judged in checkpoints.items() if judged.status not in ("read", "unreadable"))
    complete = next((path for path in checkpoints if path not in broken), None)
    recorded = records[complete] if complete else None
    facts = replace(facts, tries=TriesFacts(taken=frozenset(used), broken=broken, recorded=recorded))
    if complete:
        return replace(facts, checkpoint=checkpoints[complete])
    if broken:
        return replace(facts, checkpoint=checkpoints[broken[-1]])
    return replace(facts, checkpoint=CheckpointFacts(path=items(first), status="missing", detail="not found"))


def _judge_tries(
    read: CheckpointFacts, record: ConversionRecord | None, spec: WorkloadSpec, facts: Facts
) -> CheckpointFacts:
    """Return the facts of a try. A failed conversion may still have saved a checkpoint: of weights that changed
    meanwhile, or of another model.
    """
    if read.status != "read":
        return read
    if record is not None and record.outcome == "failed":
        return replace(read, status="torn", detail=record.reason or "its conversion failed")
    facts = replace(facts, checkpoint=read)
    run, _ = resolve(spec, facts)
    keys = trainer_of(run).trainer_keys(run)
    errors = errors_in((*checkpoint.check_checkpoint(run, keys, facts), *checkpoint.check_weights(run, keys, facts)))
    if errors:
        return replace(read, status="torn", detail=errors[0].message.rstrip("."))
    return read
