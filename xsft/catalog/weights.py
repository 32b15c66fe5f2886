"""Models whose weights a MaxText release converts from Hugging Face, and exports to it. Pure.

source: maxtext, the tables of each release (release_weights.txt) and runs of tiny models (weights.toml).
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from xsft.catalog.data import toml
from xsft.catalog.releases import WeightsStage, at_least, versions, weights_models


class WeightsFailure(Struct, frozen=True, kw_only=True):
    """A reason why a release cannot convert or export a model."""

    why: str
    unscanned_works: bool = False
    """Whether the stage succeeds with scan_layers: false."""
    working_release: str | None = None
    """The newest older release that succeeds."""


def weights_failure(name: str, *, stage: WeightsStage, version: str, scan_layers: bool) -> WeightsFailure | None:
    """Return why the release fails at this stage; None if it succeeds, as far as is known."""
    why = _why(name, stage, version, scan_layers=scan_layers)
    if why is None:
        return None
    older = versions()[: versions().index(version)]
    working = [
        earlier
        for earlier in older
        if earlier[0].isdigit() and _why(name, stage, earlier, scan_layers=scan_layers) is None
    ]
    return WeightsFailure(
        why=why,
        unscanned_works=scan_layers and _why(name, stage, version, scan_layers=False) is None,
        working_release=working[-1] if working else None,
    )


def _why(name: str, stage: WeightsStage, version: str, *, scan_layers: bool) -> str | None:
    if name not in weights_models(version, stage=stage):
        return "MaxText's tables have no names for its arrays"
    for failure in _failures():
        if failure.applies(name, stage, version, scan_layers=scan_layers):
            return failure.why
    return None


class _FailingModels(Struct, frozen=True, kw_only=True):
    """One entry of weights.toml, which explains each field."""

    models: tuple[str, ...]
    stage: WeightsStage
    since: str
    scan_layers: tuple[bool, ...]
    why: str

    def applies(self, name: str, stage: WeightsStage, version: str, *, scan_layers: bool) -> bool:
        same_case = name in self.models and stage == self.stage and scan_layers in self.scan_layers
        return same_case and at_least(version, self.since)


@cache
def _failures() -> tuple[_FailingModels, ...]:
    rows = toml("weights.toml")["failures"]
    lists = ("models", "scan_layers")
    return tuple(_FailingModels(**{**row, **{name: tuple(row[name]) for name in lists}}) for row in rows)
