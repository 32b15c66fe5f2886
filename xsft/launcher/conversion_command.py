"""The command of a conversion's container, which runs the converter and records its end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xsft.base.result_record import to_document
from xsft.spec.conversion_record import FILE, ConversionRecord
from xsft.workers.sent import sent_argv


def recorded_argv(
    argv: tuple[str, ...], *, record: ConversionRecord, end: Mapping[str, Any], checkpoint: str
) -> tuple[str, ...]:
    """Return the command that runs `argv` and records its end, even if no xsft waits for it: a program of the
    image's Python (`container`).

    Arguments:
        record: Written beside the result before the converter starts, and again at its end.
        end: `attempt`, the document of the end of the run's attempt without outcome and time, and `attempt_stem`, its
            path without `.<outcome>.json`.
        checkpoint: Path of the result, `<try>/0/items`.
    """
    path = f"{checkpoint.removesuffix('/0/items')}/{FILE}"
    notes = {"record": to_document(record), **end, "checkpoint": checkpoint, "record_path": path}
    return sent_argv("xsft.workers.conversion_container", notes, argv)
