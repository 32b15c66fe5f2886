"""What every document of the machine interface shares."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """Strict here, so that a field that is printed and not described is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Problem(Document):
    """One finding."""

    id: str
    """Stable; docs/checks.md explains it."""
    severity: Literal["error", "warning", "note"]
    """Errors refuse; warnings can be silenced under `checks:`; notes are for information."""
    message: str
    """What was given and what is allowed."""
    fix: str
    """The next step; empty where there is none."""
    where: str
    """Key path in the workload, e.g. `train.steps`; empty where it concerns the whole file."""
    file: str
    """The file, as it was named; empty for a problem of the command itself."""


class ErrorDocument(Document):
    """What any verb prints under --json where it cannot do its work."""

    schema_: str = Field(alias="schema", pattern=r"^xsft\.[a-z]+/1$")
    """That of the verb."""
    problems: list[Problem]
    exit_status: int
    """docs/reference/exit-status.md."""
