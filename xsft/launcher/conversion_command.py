"""The command of a conversion's container, which runs the converter and records its end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xsft.base.result_record import to_document
from xsft.spec.conversion_inputs import RECORD_FILE, ConversionRecord
from xsft.workers.delivery import pod_argv

PROGRAM = "xsft.workers.conversion_container"


def recorded_argv(
    argv: tuple[str, ...],
    *,
    record: ConversionRecord,
    end: Mapping[str, Any],
    checkpoint: str,
    comparison: Mapping[str, Any] | None = None,
    carried: str | None = None,
) -> tuple[str, ...]:
    """Return the command that runs `argv` and records its end, even if no xsft waits for it: a program of the
    image's Python (`container`).

    Arguments:
        record: Written beside the result before the converter starts, and again at its end.
        end: `attempt`, the document of the end of the run's attempt without outcome and time, and `attempt_stem`, its
            path without `.<outcome>.json`.
        checkpoint: Path of the result, `<try>/0/items`.
        comparison: Question to the program that compares it with its source, `{"module", "notes"}`; None: the image's
            MaxText has no tables for it.
        carried: As in `pod_argv`.
    """
    path = f"{checkpoint.removesuffix('/0/items')}/{RECORD_FILE}"
    notes = {"record": to_document(record), **end, "checkpoint": checkpoint, "record_path": path}
    if comparison is not None:
        notes["comparison"] = comparison
    return pod_argv(PROGRAM, notes, argv, carried=carried)
