"""The settings that may change when a local run resumes, and its losses over all attempts. Pure.

The record is `<output>/<run_name>/xsft/run.json`, kept by `xsft.launch.local_run`; its types are those of every record
(`xsft.records`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from xsft.records.document import read_record
from xsft.records.record import SCHEMA, Record
from xsft.spec.yamltext import same_value

MAY_CHANGE = frozenset(
    {"train.steps", "train.checkpoint_period", "data.num_epoch", "overrides.maxtext.num_epoch", "output"}
)
"""Keys in which a resumed run may differ. `output` is the folder that holds the record, so it was moved, not
changed.
"""

MAY_CHANGE_WORDS = "on resume only train.steps, train.checkpoint_period and data.num_epoch may change"

_NEEDED = ("spec_digest", "spec", "steps", "attempts", "losses")


def complete_record(text: str) -> Record:
    """Return a complete record to resume from. Raises ValueError for text that is not a record, or a record of another
    version, because the record will be rewritten."""
    record = read_record(text)
    missing = [key for key in _NEEDED if key not in json.loads(text)]
    if record.schema != SCHEMA:
        raise ValueError(f"schema {record.schema!r}, not {SCHEMA!r}")
    if missing or record.unread:
        raise ValueError(f"incomplete record: {', '.join((*missing, *record.unread))}")
    return record


def changed_keys(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the differences that make `now` another run than `before`, as `key: old -> new`, without the keys that may
    change on resume.

    Both are the `spec` of a record (`spec.digest.canonical`).
    """
    return _differences(before, now, leave_out=MAY_CHANGE)


def all_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the differences as `changed_keys` does, with the keys that may change on resume."""
    return _differences(before, now, leave_out=frozenset())


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], *, leave_out: frozenset[str]) -> tuple[str, ...]:
    old, new = dict(_record_leaves(before)), dict(_record_leaves(now))
    every = sorted((old.keys() | new.keys()) - leave_out)
    keys = [key for key in every if not same_value(old.get(key), new.get(key))]
    return tuple(f"{key}: {_old_or_new(old.get(key))} -> {_old_or_new(new.get(key))}" for key in keys)


def merge_losses(
    losses: Mapping[int, float], later: Mapping[int, float], *, resumed_from: int | None
) -> dict[int, float]:
    """Return the losses of the whole run: those after the checkpoint were lost and come from the later attempt."""
    kept = {step: loss for step, loss in losses.items() if step <= (resumed_from or 0)}
    return {**kept, **later}


def _record_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in value.items():
        yield from _record_leaves(inner, f"{path}.{key}" if path else str(key))


def _old_or_new(value: Any) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)
