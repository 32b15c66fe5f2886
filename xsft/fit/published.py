"""Step times of MaxText's pre-training that others measured and published. Pure."""

from __future__ import annotations

import json
from functools import cache

from msgspec import Struct

from xsft.catalog.data import catalog_text, toml
from xsft.fit.work import StepWork

WORK = "published_work.json"
"""File of the catalogue: published run -> what its compiled step does; written by tests/tools/published_work.py."""


class PublishedStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published run; published.toml names the source."""

    id: str
    model: str
    tpu_type: str
    num_slices: int
    tokens: int
    """Per device and step."""
    step_s: float
    """Measured, seconds."""
    source: str
    work: StepWork | None = None
    """Work of its step as our compiler builds it; None if it was not compiled."""


@cache
def published_steps() -> tuple[PublishedStep, ...]:
    """Return all of them. They are not made by `msgspec.convert`: it crashes when two threads first need one type."""
    compiled = json.loads(catalog_text(WORK))
    return tuple(
        PublishedStep(**row, work=StepWork(**compiled[row["id"]]["work"]) if row["id"] in compiled else None)
        for row in toml("published.toml")["runs"]
    )
