"""The record beside a converted checkpoint: its source weights and its run. Pure.

`<try>/xsft/conversion.json`. The record of the run itself is in `<output>/<run_name>-convert/xsft/`, as any run's.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

FILE = "xsft/conversion.json"
SCHEMA = "xsft.conversion/1"
MAX_BYTES = 1 << 20
SPEC_KEY = "conversion"
"""Key of a conversion's record under `spec`, on this machine; a training run's record has none."""


class ConversionRecord(Struct, frozen=True, kw_only=True):
    """Record of a conversion, written before the converter starts, and again at its end. Unknown keys are ignored."""

    digest: str
    """Digest of the inputs, 64 hex digits."""
    run_name: str
    """Run name of the conversion."""
    outcome: Literal["running", "completed", "failed", "interrupted"] | str = "running"  # noqa: PYI051 - a later xsft's
    """`running` if no process holds the conversion's lock: it was killed."""
    started_at: str = ""
    """UTC, ISO 8601."""
    finished_at: str | None = None
    reason: str | None = None
    """Why it did not complete."""
    argv: tuple[str, ...] = ()
    """Arguments of to_maxtext."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """`ConversionInputs`, with the commit that the hub answered."""

    @property
    def commit(self) -> str | None:
        source = self.inputs.get("source")
        found = source.get("commit") if isinstance(source, dict) else None
        return found if isinstance(found, str) else None


_RECORD = msgspec.json.Decoder(ConversionRecord)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def to_json(record: ConversionRecord) -> str:
    return json.dumps({"schema": SCHEMA, **msgspec.to_builtins(record)}, indent=1, ensure_ascii=False) + "\n"


def from_json(content: bytes) -> ConversionRecord | None:
    """Return the record; None for other or incomplete content."""
    try:
        return _RECORD.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
