"""The record beside an exported model: its inputs, its files and its verification. Pure.

`<folder>/xsft/export.json`. Only a record whose outcome is `completed` makes the folder complete: it is written last,
after the verification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec
from msgspec import field

from xsft.base.result_record import ResultRecord, decode_record
from xsft.weights.export_verification import Verification

FILE = "xsft/export.json"
MAX_BYTES = 8 << 20


class ExportRecord(ResultRecord, frozen=True, kw_only=True):
    """Record of an export. Its inputs are `ExportInputs`."""

    SCHEMA: ClassVar[str] = "xsft.export/1"

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


def from_json(content: bytes) -> ExportRecord | None:
    """Return the record; None for other or incomplete content."""
    return decode_record(content, _RECORD)
