"""The requests that planning sends to the Hugging Face hub, as functions that are called only when they are needed."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from xsft.data.facts import HubDataFacts
from xsft.spec.conversion_inputs import ConversionSource
from xsft.spec.facts import SourceFacts


class HubReader(Struct, frozen=True):
    """The requests that planning sends to the hub; tests and callers with many workloads pass their own."""

    data: Callable[[str], HubDataFacts | None]
    """By data.hf_path."""
    weights: Callable[[ConversionSource], SourceFacts | None]


def answered_reader(source: SourceFacts | None) -> HubReader:
    """Return a reader that does not ask the hub for weights, because they were already asked for."""
    return HubReader(data=lambda _path: None, weights=lambda _source: source)


def online_reader() -> HubReader:
    """Return the reader that asks the hub."""
    return HubReader(data=lambda path: _hub().data(path), weights=lambda source: _hub().weights(source))


def _hub() -> HubReader:
    """Return the functions that ask the hub. They are imported at the first request, because most plans send none and
    the library requests takes 0.08 CPU-s to import.
    """
    from xsft.planning.hub_check import check_data, check_weights

    return HubReader(data=check_data, weights=check_weights)
