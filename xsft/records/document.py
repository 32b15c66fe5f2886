"""Records as JSON: written strictly, read leniently. Pure.

A record outlives the xsft that wrote it. Unknown keys are ignored, missing ones have defaults, a value that makes no
sense is left out and named in `Record.unread`; another schema version is read as far as it is known.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from typing import Any, TypeVar, get_args

from xsft.records.model import SCHEMA, Attempt, Facts, Outcome, Record
from xsft.records.scrub import scrub

T = TypeVar("T")

_FAMILY = SCHEMA.partition("/")[0]
_MAX_REPAIRS = 50


def to_json(record: Record) -> str:
    """Raises ValueError for a record of another schema, or one that was not read whole: writing would lose some."""
    if record.schema != SCHEMA or record.unread:
        raise ValueError(f"a record of schema {record.schema!r} that was not read whole ({record.unread}) stays as is")
    losses = [[step, loss] for step, loss in sorted(record.losses.items())]
    attempts = [_without_nothing(asdict(attempt)) for attempt in record.attempts]
    document = {**asdict(record), "outcome": record.outcome, "attempts": attempts, "losses": losses}
    document.pop("unread")
    return _text({"schema": SCHEMA, **_without_nothing(document)})


def facts_to_json(facts: Facts, *, run_name: str, number: int) -> str:
    return _text({"schema": SCHEMA, "run_name": run_name, "attempt": number, **_without_nothing(asdict(facts))})


def read_record(text: str | bytes) -> Record:
    """Raises ValueError when the text is not a record at all: no JSON object, no `xsft.record/…`, no run name."""
    document = _without_nothing(_object(text))
    pairs = document.get("losses")
    if isinstance(pairs, list):  # JSON has no integer keys
        document["losses"] = {pair[0]: pair[1] for pair in pairs if _is_loss(pair)}
    if isinstance(document.get("attempts"), list):
        document["attempts"] = [_attempt(attempt) for attempt in document["attempts"]]
    document.pop("unread", None)
    record, unread = _lenient(Record, document)
    return replace(record, unread=unread)


def read_facts(text: str | bytes) -> Facts:
    """Raises ValueError when the text says nothing about an attempt."""
    return _lenient(Facts, _attempt(_object(text)))[0]


def unreadable(*, run_name: str, number: int, name: str, reason: str) -> Record:
    """What stands for an attempt whose document is torn: that it was begun is known, and nothing else."""
    attempt = Attempt(number=number, outcome="unknown", reason=f"{name} cannot be read: {reason}")
    return Record(run_name=run_name, target="unknown", attempts=(attempt,), unread=(name,))


def _text(document: Mapping[str, Any]) -> str:
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
    """Without nulls, which say nothing, and without an outcome that is not known here."""
    if not isinstance(document, dict):
        return document
    attempt = _without_nothing(document)
    if attempt.get("outcome", "unknown") not in get_args(Outcome):
        attempt["outcome"] = "unknown"
    return attempt


def _is_loss(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int) and isinstance(pair[1], int | float)


def _lenient(kind: type[T], document: dict[str, Any]) -> tuple[T, tuple[str, ...]]:
    """The value, and the key paths that had to be left out to make it one."""
    from pydantic import ValidationError

    document = copy.deepcopy(document)
    unread: list[str] = []
    for _ in range(_MAX_REPAIRS):
        try:
            return _adapters()[kind.__name__].validate_python(document), tuple(dict.fromkeys(unread))
        except ValidationError as invalid:
            worst = invalid.errors()[-1]  # the last one: removing it leaves earlier indices as they are
            path = worst["loc"][:-1] if worst["type"] == "missing" else worst["loc"]
            _leave_out(document, path)
            unread.append(".".join(map(str, path)))
    raise ValueError("too much of it makes no sense")


@cache
def _adapters() -> dict[str, Any]:
    from pydantic import TypeAdapter

    return {kind.__name__: TypeAdapter(kind) for kind in (Record, Facts)}


def _leave_out(document: dict[str, Any], path: tuple[int | str, ...]) -> None:
    """Remove the deepest part of `path` that is there; pydantic's paths may end in words of its own."""
    node: Any = document
    for here, below in zip(path, [*path[1:], None], strict=True):
        inner = _at(node, here)
        if below is None or _at(inner, below) is None:
            if inner is None:
                break
            del node[here]
            return
        node = inner
    raise ValueError(f"{'.'.join(map(str, path)) or 'what a record must have'} is missing")


def _at(node: Any, key: int | str) -> Any:
    """None also for a key that holds null: null is what JSON has for nothing."""
    if isinstance(node, Mapping):
        return node.get(key)
    inside = isinstance(node, list) and isinstance(key, int) and key < len(node)
    return node[key] if inside else None
