"""Records as JSON: written strictly, read leniently. Pure.

A record may be older or newer than this xsft. Unknown keys are ignored, missing ones have defaults, invalid values are
left out and listed in `Record.unread`; of another schema version all known keys are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar, get_args

from xsft.records.record import SCHEMA, Attempt, AttemptFacts, Outcome, Record
from xsft.records.scrub import scrub

T = TypeVar("T")

_FAMILY = SCHEMA.partition("/")[0]


def to_json(record: Record) -> str:
    """Return the JSON. Raises ValueError for a record of another schema, or one with unread values, because writing
    would lose data.
    """
    if record.schema != SCHEMA or record.unread:
        raise ValueError(
            f"a record of schema {record.schema!r} that was read only in part ({record.unread}) is not written"
        )
    losses = [[step, loss] for step, loss in sorted(record.losses.items())]
    attempts = [_without_nothing(asdict(attempt)) for attempt in record.attempts]
    document = {**asdict(record), "outcome": record.outcome, "attempts": attempts, "losses": losses}
    document.pop("unread")
    return _record_text({"schema": SCHEMA, **_without_nothing(document)})


def facts_to_json(facts: AttemptFacts, *, run_name: str, number: int) -> str:
    return _record_text({"schema": SCHEMA, "run_name": run_name, "attempt": number, **_without_nothing(asdict(facts))})


def read_record(text: str | bytes) -> Record:
    """Parse a record. Raises ValueError if the text is not one: no JSON object, no `xsft.record/…`, no run name."""
    document = _without_nothing(_object(text))
    pairs = document.get("losses")
    if isinstance(pairs, list):  # JSON has no integer keys
        document["losses"] = {pair[0]: pair[1] for pair in pairs if _is_loss(pair)}
    if isinstance(document.get("attempts"), list):
        document["attempts"] = [_attempt(attempt) for attempt in document["attempts"]]
    document.pop("unread", None)
    record, unread = _lenient(Record, document)
    return replace(record, unread=unread)


def read_facts(text: str | bytes) -> AttemptFacts:
    """Parse the facts. Raises ValueError if the text has none."""
    return _lenient(AttemptFacts, _attempt(_object(text)))[0]


def unreadable(*, run_name: str, number: int, name: str, reason: str) -> Record:
    """Return a placeholder for an attempt whose document is unreadable: only its start is known."""
    attempt = Attempt(number=number, outcome="unknown", reason=f"{name} cannot be read: {reason}")
    return Record(run_name=run_name, target="unknown", attempts=(attempt,), unread=(name,))


def _record_text(document: Mapping[str, Any]) -> str:
    return json.dumps(scrub(document), indent=1, ensure_ascii=False, allow_nan=True) + "\n"


def _without_nothing(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value is not None}


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as broken:  # UnicodeDecodeError is a ValueError
        raise ValueError(f"not JSON: {broken}") from None
    if not isinstance(document, dict) or str(document.get("schema", "")).partition("/")[0] != _FAMILY:
        raise ValueError(f"not a record: no schema {_FAMILY}/…")
    return document


def _attempt(document: Any) -> Any:
    """Return the attempt without null values and unknown outcomes."""
    if not isinstance(document, dict):
        return document
    attempt = _without_nothing(document)
    if attempt.get("outcome", "unknown") not in get_args(Outcome):
        attempt["outcome"] = "unknown"
    return attempt


def _is_loss(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int) and isinstance(pair[1], int | float)


def _lenient(kind: type[T], document: dict[str, Any]) -> tuple[T, tuple[str, ...]]:
    """Return `lenient.lenient` of the document."""
    from xsft.records.lenient_document import lenient

    return lenient(kind, document)
