"""The command of a conversion's container: what it runs, and what it records by itself. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from msgspec import Struct, to_builtins

from xsft.conversion.record import FILE, ConversionRecord, to_json


class ContainerNotes(Struct, frozen=True, kw_only=True):
    """What the container records, so that the end is known though nobody waits for it."""

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
    document = {**to_builtins(notes), "record": json.loads(to_json(notes.record)), "record_path": notes.record_path}
    return ("python3", "-c", program(), json.dumps(document, separators=(",", ":")), *argv)


def program() -> str:
    """Return the text of `xsft.conversion.container`."""
    return files("xsft.conversion").joinpath("container.py").read_text("utf-8")
