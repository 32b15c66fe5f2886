"""The base of every document of the machine interface."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """Base of all documents; strict, so that a field that is printed and not described is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Problem(Document):
    """One problem that was found."""

    id: str
    """Stable id; docs/checks.md explains it."""
    severity: Literal["error", "warning", "note"]
    """Errors refuse; warnings can be silenced under `checks:`; notes are for information."""
    message: str
    """What was given and what is allowed."""
    fix: str
    """The next step; empty if there is none."""
    where: str
    """Key path in the workload, e.g. `train.steps`; empty if the problem concerns the whole file."""
    file: str
    """The file, as it was named; empty for a problem of the command itself."""


class ErrorDocument(Document):
    """Document that any verb prints under --json if it fails."""

    schema_: str = Field(alias="schema", pattern=r"^xsft\.[a-z]+/1$")
    """Schema name of the verb's own document."""
    problems: list[Problem]
    exit_status: int
    """Exit status of the verb; docs/reference/exit-status.md."""
