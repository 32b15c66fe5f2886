"""The base of every document of the machine interface."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field


class Document(Struct, frozen=True, kw_only=True):
    """Base of all documents. A part that the code has as a value is that value's own type."""


class ProblemFields(Document, frozen=True, kw_only=True):
    """One problem that was found."""

    id: str
    """Stable id; docs/checks.md explains it."""
    severity: Literal["error", "warning", "note"]
    """An error blocks the command; a warning can be accepted under `checks:`; a note is information."""
    message: str
    """What was given and what is allowed."""
    fix: str
    """The next step; empty if there is none."""
    where: str
    """Key path in the workload, e.g. `train.steps`; empty if the problem concerns the whole file."""
    file: str
    """Name of the file as given; empty for a problem of the command itself."""


class ErrorDocument(Document, frozen=True, kw_only=True):
    """Document that any verb prints under --json if it fails."""

    schema_: Annotated[str, Meta(pattern=r"^xsft\.[a-z]+/1$")] = field(name="schema")
    """Schema name of the verb's own document."""
    problems: list[ProblemFields]
    exit_status: int
    """Exit status of the verb; docs/reference/exit-status.md."""


class RunTimeDocument(Document, frozen=True, kw_only=True):
    """Minimum time of a run's steps on its TPUs, by arithmetic; real steps take longer."""

    steps: int
    step_time_bound_s: float
    """Minimum time of a step, in seconds."""
    bound_by: Literal["arithmetic"]
    """The matrix multiplications with the model's weights, at the chips' full rate."""
    resources_s: dict[str, float]
    """Seconds by `bound_by`."""
    compiled: bool
    """Always false: the compiled program is not counted."""
    tokens_per_second_bound: float
    """Per device, at most, padding included."""
    mfu_bound: float | None
    """Always null: arithmetic alone is the whole of its own time."""
    chip_hours_bound: float
    cost_bound: float | None
    """Minimum cost, by the place's `chip_hour_price`; null without a price."""
    measured_over_bound: list[float]
    """Measured step time over the minimum; empty for steps shorter than published ones."""
    measured_by: Literal["own", "published"]
    """`own`: runs of this model on this TPU type that were submitted from this machine and have a receipt."""
