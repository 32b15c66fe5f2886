"""The record beside an exported model: what it was made of, its files, and what was verified. Pure.

`<folder>/xsft/export.json`. Only a record whose outcome is `completed` makes the folder complete: it is written last,
after the verification.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from xsft.export.verification import Verification

FILE = "xsft/export.json"
SCHEMA = "xsft.export/1"
MAX_BYTES = 8 << 20
SPEC_KEY = "export"
"""Key of an export's record under `spec`; a training run's record has none."""


class ExportRecord(Struct, frozen=True, kw_only=True):
    """Record of an export, written before the exporter starts, and again at its end. Unknown keys are ignored."""

    digest: str
    run_name: str
    outcome: Literal["running", "completed", "failed", "interrupted"] | str = "running"  # noqa: PYI051 - a later xsft's
    """`running` if no process holds the export's lock: it was killed."""
    started_at: str = ""
    """UTC, ISO 8601."""
    finished_at: str | None = None
    reason: str | None = None
    """Why it did not complete."""
    argv: tuple[str, ...] = ()
    """Arguments of to_huggingface."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """`ExportInputs`."""
    files: dict[str, int] = field(default_factory=dict)
    """Bytes of each file of the model, by its name in the folder."""
    verification: Verification | None = None
    commit: str | None = None
    """Commit of the hub's repository that has the files; None: they are in the folder."""


def missing_files(record: ExportRecord, *, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of recorded files that the folder lacks, or holds with another size."""
    return tuple(name for name, size in record.files.items() if sizes.get(name) != size)


_RECORD = msgspec.json.Decoder(ExportRecord)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def to_json(record: ExportRecord) -> str:
    return json.dumps({"schema": SCHEMA, **msgspec.to_builtins(record)}, indent=1, ensure_ascii=False) + "\n"


def from_json(content: bytes) -> ExportRecord | None:
    """Return the record; None for other or incomplete content."""
    try:
        return _RECORD.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
