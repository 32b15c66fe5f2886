"""Records as JSON, without secrets. Pure.

A record may be older or newer than this xsft: unknown keys are ignored, and missing ones have defaults. A record with a
value of another type is not read: only xsft writes records. Plans with a literal secret are already refused; that
secrets are removed here is a second safeguard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar, get_args

import msgspec

from xsft.base.secrets import HIDDEN, is_secret_value, is_secret_variable, redact
from xsft.records.record import SCHEMA, Attempt, AttemptFacts, Outcome, Record

T = TypeVar("T")

_FAMILY = SCHEMA.partition("/")[0]

for _type in (Record, AttemptFacts, list[tuple[int, float]], list[dict[str, Any]]):
    msgspec.json.Decoder(_type)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


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
    """Parse a record. Raises ValueError if the text is not one: no JSON object, no `xsft.record/…`, no run name, or a
    value of another type.
    """
    document = _without_nothing(_object(text))
    pairs = _typed(list[tuple[int, float]], document.get("losses", []))  # JSON has no integer keys
    attempts = _typed(list[dict[str, Any]], document.get("attempts", []))
    read = {"losses": dict(pairs), "attempts": list(map(_attempt, attempts)), "unread": ()}
    return _typed(Record, {**document, **read})


def read_facts(text: str | bytes) -> AttemptFacts:
    """Parse the facts. Raises ValueError if the text has none."""
    return _typed(AttemptFacts, _attempt(_object(text)))


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


def _attempt(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attempt without null values; an outcome of a newer xsft is `unknown`."""
    attempt = _without_nothing(document)
    if attempt.get("outcome", "unknown") not in get_args(Outcome):
        attempt["outcome"] = "unknown"
    problems = _typed(list[dict[str, Any]], attempt.get("problems", []))
    # Earlier releases wrote `unknown` for a run that was not compiled.
    attempt["problems"] = [
        problem | {"fit": None} if problem.get("fit") == "unknown" else problem for problem in problems
    ]
    return attempt


def _typed(kind: type[T], document: Any) -> T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as invalid:
        raise ValueError(str(invalid)) from None


def scrub(value: Any, *, key: str = "") -> Any:
    """Return a JSON value without secrets, found by format (in keys too) or by the name they are assigned to.

    Environment variables are judged by name too; `key` is the name of this value.
    """
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {redact(str(name)): _scrub_under(str(name), inner, inside=key) for name, inner in value.items()}
        case list() | tuple():
            return [scrub(item, key=key) for item in value]
        case _:
            return value


def _scrub_under(name: str, value: Any, *, inside: str) -> Any:
    if not isinstance(value, str):
        return scrub(value, key=name)
    if is_secret_value(name, value) or (inside == "env" and is_secret_variable(name, value)):
        return HIDDEN
    return redact(value)
