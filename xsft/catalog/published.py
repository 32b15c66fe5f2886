"""Step times of MaxText's pre-training that others measured and published. Pure."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from xsft.catalog.data import toml


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


@cache
def published_steps() -> tuple[PublishedStep, ...]:
    """Return all of them. They are not made by `msgspec.convert`: it crashes when two threads first need one type."""
    return tuple(PublishedStep(**row) for row in toml("published.toml")["runs"])
