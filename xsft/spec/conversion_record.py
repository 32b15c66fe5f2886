"""The record beside a converted checkpoint: its source weights and its run. Pure.

`<try>/xsft/conversion.json`. The record of the run itself is in `<output>/<run_name>-convert/xsft/`, as any run's.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from xsft.base.result_record import ResultRecord, decode_record

FILE = "xsft/conversion.json"
MAX_BYTES = 1 << 20


class ConversionRecord(ResultRecord, frozen=True, kw_only=True):
    """Record of a conversion. Its inputs are `ConversionInputs`, with the commit that the hub answered."""

    SCHEMA: ClassVar[str] = "xsft.conversion/1"

    verified: str = ""
    """How the checkpoint was compared with its source; empty if it was not."""

    @property
    def commit(self) -> str | None:
        source = self.inputs.get("source")
        commit = source.get("commit") if isinstance(source, dict) else None
        return commit if isinstance(commit, str) else None


_RECORD = msgspec.json.Decoder(ConversionRecord)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def from_json(content: bytes) -> ConversionRecord | None:
    """Return the record; None for other or incomplete content."""
    return decode_record(content, _RECORD)
