"""The record beside the result of a stage: `conversion.json`, `export.json`. Pure."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Struct, field


class ResultRecord(Struct, frozen=True, kw_only=True):
    """Written before the work starts, and again at its end. Unknown keys are ignored."""

    SCHEMA: ClassVar[str]

    digest: str
    """Digest of the inputs, 64 hex digits."""
    run_name: str
    """Run name of the stage."""
    outcome: Literal["running", "completed", "failed", "interrupted"] | str = "running"  # noqa: PYI051 - a later xsft's
    """`running` if no process holds the lock of the work: it was killed."""
    started_at: str = ""
    """UTC, ISO 8601."""
    finished_at: str | None = None
    reason: str | None = None
    """Why it did not complete."""
    argv: tuple[str, ...] = ()
    """Arguments of MaxText's program."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """The stage's inputs, as far as they are in the digest."""


R = TypeVar("R", bound=ResultRecord)


def to_document(record: ResultRecord) -> dict[str, Any]:
    return {"schema": record.SCHEMA, **msgspec.to_builtins(record)}


def to_json(record: ResultRecord) -> str:
    return json.dumps(to_document(record), indent=1, ensure_ascii=False) + "\n"


def decode_record(content: bytes, decoder: msgspec.json.Decoder[R]) -> R | None:
    """Return the record; None for other or incomplete content."""
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class WrittenResult(ResultRecord, frozen=True, kw_only=True):
    """The record beside any stage's result, or evaluation.json, which is written once, at the end."""

    outcome: str = "completed"
    judgement: dict[str, Any] = field(default_factory=dict)
    """Of an evaluation."""


_WRITTEN = msgspec.json.Decoder(WrittenResult)


def is_complete(content: bytes, *, digest: str | None) -> bool:
    """Return whether the file beside a result says that it is complete, with these inputs; an evaluation also, that its
    verdict did not fail."""
    written = decode_record(content, _WRITTEN)
    if written is None or written.digest != digest:
        return False
    return written.outcome == "completed" and written.judgement.get("verdict") != "failed"
