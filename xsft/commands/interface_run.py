"""The document of `xsft run`."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from xsft.commands.interface_base import Document, Problem
from xsft.stages.walk import StageReport


class RunDocument(Document, frozen=True, kw_only=True):
    """`xsft run FILE --json`."""

    schema_: Literal["xsft.run/1"] = field(name="schema")
    stages: list[StageReport]
    """Stages of the workload, in order."""
    problems: list[Problem]
    exit_status: int
    """Exit status of the command."""
