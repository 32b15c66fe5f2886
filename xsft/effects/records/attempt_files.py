"""Reads the files in which the attempts of a run are recorded: each is a Record with exactly one attempt."""

from __future__ import annotations

import re
from dataclasses import replace

from xsft.effects.records.objects import Objects
from xsft.records import LOCAL_RECORD
from xsft.records.document import read_facts, read_record, unreadable
from xsft.records.model import AttemptFacts, Record, with_facts

MAX_BYTES = 16 * 1024 * 1024
"""Limit for reading one record; a local run of 100,000 steps has 3 MB of losses."""

_INTENT = "intent"
_ATTEMPT = re.compile(r"attempt-[1-9][0-9]{0,5}\.json")
_FACTS = re.compile(r"attempt-[1-9][0-9]{0,5}\.[a-z-]+(?:\.[0-9a-f]+)?\.json")


def attempts_in(folder: str, objects: Objects, *, run_name: str) -> tuple[Record, ...]:
    """Return the attempts, the first one first. An attempt whose document is cut off is returned as `unknown`, with the
    reason.
    """
    names = objects.names(folder)
    submitted = [_whole(folder, name, names, objects, run_name) for name in names if _ATTEMPT.fullmatch(name)]
    local = _local_attempts(folder, objects, run_name) if LOCAL_RECORD in names else ()
    return tuple(sorted((*submitted, *local), key=lambda record: record.last.number))


def intent(path: str, submitter: str) -> str:
    """Return the path at which a submitter that was not the first records what it is about to submit."""
    return f"{path.removesuffix('.json')}.{_INTENT}.{submitter}.json"


def attempt_at(path: str, objects: Objects, *, run_name: str, number: int) -> Record:
    name = path.rpartition("/")[2]
    try:
        record = read_record(objects.read(path, limit=MAX_BYTES) or b"")
    except ValueError as broken:
        return unreadable(run_name=run_name, number=number, name=name, reason=str(broken))
    if not record.attempts:
        return unreadable(run_name=run_name, number=number, name=name, reason="it holds no attempt")
    return replace(record, attempts=(replace(record.attempts[0], number=number),))


def facts_at(path: str, objects: Objects) -> AttemptFacts | None:
    try:
        return read_facts(objects.read(path, limit=MAX_BYTES) or b"")
    except ValueError:
        return None


def _whole(folder: str, name: str, names: tuple[str, ...], objects: Objects, run_name: str) -> Record:
    stem = name.removesuffix(".json")
    record = attempt_at(f"{folder}/{name}", objects, run_name=run_name, number=int(stem.partition("-")[2]))
    later = [other for other in names if other.startswith(f"{stem}.") and _FACTS.fullmatch(other)]
    later = [other for other in later if not other.startswith(f"{stem}.{_INTENT}.")]
    said = [facts_at(f"{folder}/{other}", objects) for other in later]
    unread = tuple(other for other, facts in zip(later, said, strict=True) if facts is None)
    known = tuple(facts for facts in said if facts is not None)
    creator = with_facts(record.last, known).created_by
    if creator and creator != record.last.submitter and intent(name, creator) in names:
        path = f"{folder}/{intent(name, creator)}"
        record = attempt_at(path, objects, run_name=run_name, number=record.last.number)
    attempt = with_facts(record.last, known)
    return replace(record, attempts=(attempt,), unread=(*record.unread, *unread))


def _local_attempts(folder: str, objects: Objects, run_name: str) -> tuple[Record, ...]:
    """Return the attempts of a local run. The losses are of the whole run; they are stored with its last attempt."""
    try:
        record = read_record(objects.read(f"{folder}/{LOCAL_RECORD}", limit=MAX_BYTES) or b"")
    except ValueError as broken:
        return (unreadable(run_name=run_name, number=1, name=LOCAL_RECORD, reason=str(broken)),)
    if not record.attempts:
        return (unreadable(run_name=run_name, number=1, name=LOCAL_RECORD, reason="it holds no attempt"),)
    *earlier, last = record.attempts
    return (*(replace(record, attempts=(one,), losses={}) for one in earlier), replace(record, attempts=(last,)))
