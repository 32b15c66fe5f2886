"""The command of a conversion's container, which runs the converter and records its end. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, to_builtins

from xsft.conversion.record import FILE, ConversionRecord
from xsft.pod.sent import sent_argv
from xsft.stages.result_record import to_json


class ContainerNotes(Struct, frozen=True, kw_only=True):
    """The notes that the container writes, so that the end is known even if no xsft waits for it."""

    record: ConversionRecord
    """Written beside the result before the converter starts, and again at its end."""
    attempt: Mapping[str, Any]
    """Document of the end of the run's attempt, without outcome and time."""
    attempt_stem: str
    """Path of that document, without `.<outcome>.json`."""
    checkpoint: str
    """Path of the result, `<try>/0/items`."""

    @property
    def record_path(self) -> str:
        return f"{self.checkpoint.removesuffix('/0/items')}/{FILE}"


def recorded_argv(argv: tuple[str, ...], notes: ContainerNotes) -> tuple[str, ...]:
    """Return the command that runs `argv` and records its end: a program of the image's Python (`container`)."""
    known = {**to_builtins(notes), "record": json.loads(to_json(notes.record)), "record_path": notes.record_path}
    return sent_argv("xsft.conversion.container", known, argv)
