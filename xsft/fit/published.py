"""Step times that others measured and published, with what their compiled steps compute and move. Pure."""

from __future__ import annotations

from functools import cache

import msgspec
from msgspec import Struct

from xsft.catalog.data import toml
from xsft.fit.work import StepWork


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
    keys: tuple[str, ...] = ()
    """MaxText's keys with which the step was compiled, as MaxText's pre-training step; empty if it was not."""
    work: StepWork | None = None


@cache
def published_steps() -> tuple[PublishedStep, ...]:
    return tuple(msgspec.convert(toml("published.toml")["runs"], tuple[PublishedStep, ...]))
