"""The record of a run on this machine: what was asked, every attempt, every step's loss. Pure.

`<output>/<run_name>/xsft/run.json`, schema `xsft.record/1`, kept by `effects.local_run`. Read leniently: a newer xsft
may add keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

SCHEMA = "xsft.record/1"

Outcome = Literal["running", "completed", "short", "failed", "interrupted"]
"""`short`: the trainer ended without an error before the steps asked for. `running` in a record nobody holds: it was
killed.
"""

MAY_CHANGE = frozenset({"train.steps", "train.checkpoint_period", "checkpoint_period", "output"})
"""What a resumed run may have different. `output` is the folder the record lies in, so it was moved, not changed."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of the trainer."""

    number: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: str
    """Everything the trainer printed."""
    started_at: str
    """UTC, ISO 8601."""
    spec_digest: str
    finished_at: str | None = None
    outcome: Outcome = "running"
    exit_status: int | None = None
    reason: str | None = None
    resumed_from: int | None = None
    """Step of the checkpoint it went on from."""
    last_step: int | None = None
    private_pids: bool | None = None
    """Whether it ran in a PID namespace of its own."""


@dataclass(frozen=True, kw_only=True)
class Record:
    run_name: str
    spec_digest: str
    spec: Mapping[str, Any]
    """The canonical JSON that the digest is taken over (`spec.digest.canonical`)."""
    steps: int
    """Asked for."""
    attempts: tuple[Attempt, ...] = ()
    losses: Mapping[int, float]
    """Step to loss over all attempts; a step that was done twice counts with its later loss."""

    @property
    def outcome(self) -> Outcome | None:
        return self.attempts[-1].outcome if self.attempts else None


def to_json(record: Record) -> str:
    losses = [[step, loss] for step, loss in sorted(record.losses.items())]
    document = {"schema": SCHEMA, "target": "local", **asdict(record), "outcome": record.outcome, "losses": losses}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=True) + "\n"


def from_json(text: str) -> Record:
    """Raises ValueError when the text is not a record of this schema."""
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}, not {SCHEMA!r}")
        return Record(
            run_name=document["run_name"],
            spec_digest=document["spec_digest"],
            spec=document["spec"],
            steps=document["steps"],
            attempts=tuple(_attempt(a) for a in document["attempts"]),
            losses={int(step): float(loss) for step, loss in document["losses"]},
        )
    except (KeyError, TypeError) as missing:
        raise ValueError(f"not a whole record: {missing}") from missing


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes `now` another run than `before`, one `key: old -> new` each; what may change on resume is left out."""
    old, new = dict(_leaves(before)), dict(_leaves(now))
    keys = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k) and k not in MAY_CHANGE)
    return tuple(f"{key}: {_shown(old.get(key))} -> {_shown(new.get(key))}" for key in keys)


def merged(losses: Mapping[int, float], later: Mapping[int, float], *, resumed_from: int | None) -> dict[int, float]:
    """Losses of the whole run: what came after the checkpoint was lost and is done again."""
    kept = {step: loss for step, loss in losses.items() if step <= (resumed_from or 0)}
    return {**kept, **later}


def _attempt(document: Mapping[str, Any]) -> Attempt:
    known = {field.name for field in fields(Attempt)}
    values = {key: value for key, value in document.items() if key in known}
    return Attempt(**{**values, "argv": tuple(values["argv"])})


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, f"{path}.{key}" if path else str(key))


def _shown(value: Any) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)
