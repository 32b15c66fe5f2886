"""Finds the result of a conversion, among its tries. Reads small files only."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from xsft.base.errors import Unreachable
from xsft.base.names import attempt_number
from xsft.base.problems import Problem, errors_in
from xsft.checks import checkpoint
from xsft.checks.facts import Facts
from xsft.machine.process import own_environment
from xsft.machine.storage import DEADLINE_S, storage_for
from xsft.spec.conversion_inputs import (
    MAX_RECORD_BYTES,
    RECORD_FILE,
    ConversionInputs,
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
        taken = tuple(path for _, path in tried if set(names(path)) - {OWN} or _may_be_written(records[path]))
    except Unreachable as failed:
        detail = f"{failed.clause}. {failed.fix}".strip()
        return replace(facts, checkpoint=CheckpointFacts(path=items(first), status="unreadable", detail=detail))
    own = tuple(path for path in taken if _is_own(records[path], run.conversion))
    found = {path: _judge_tries(look(items(path)), records[path], spec, facts) for path in own}
    broken = tuple(path for path, one in found.items() if one.status not in ("read", "unreadable"))
    complete = next((path for path in own if path not in broken), None)
    recorded = records[complete] if complete else None
    facts = replace(facts, tries=TriesFacts(taken=frozenset(taken), broken=broken, recorded=recorded))
    if complete:
        return replace(facts, checkpoint=found[complete])
    missing = CheckpointFacts(path=items(first), status="missing", detail="not found")
    return replace(facts, checkpoint=found[broken[-1]] if broken else missing)


def _judge_tries(
    found: CheckpointFacts, record: ConversionRecord | None, spec: WorkloadSpec, facts: Facts
) -> CheckpointFacts:
    """Return the facts of a try. A failed conversion may still have saved a checkpoint: of weights that changed
    meanwhile, or of another model.
    """
    if found.status != "read":
        return found
    if record is not None and record.outcome == "failed":
        return replace(found, status="torn", detail=record.reason or "its conversion failed")
    wrong = _checkpoint_errors(spec, facts, found)
    return replace(found, status="torn", detail=wrong[0].message.rstrip(".")) if wrong else found


def _may_be_written(record: ConversionRecord | None) -> bool:
    """Return whether another process may still write the try. If no kernel option ties the converter to xsft, it
    continues after xsft was killed.
    """
    return record is not None and record.outcome == "running"


def _is_own(record: ConversionRecord | None, inputs: ConversionInputs) -> bool:
    """Return whether the try converts the same weights. A folder that the user named may hold another conversion."""
    return record is None or record.digest == inputs.digest


def _checkpoint_errors(spec: WorkloadSpec, facts: Facts, found: CheckpointFacts) -> tuple[Problem, ...]:
    known = replace(facts, checkpoint=found)
    run, _ = resolve(spec, known)
    keys = trainer_of(run).trainer_keys(run)
    return errors_in((*checkpoint.check_checkpoint(run, keys, known), *checkpoint.check_weights(run, keys, known)))
