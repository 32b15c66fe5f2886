"""The requests that planning sends to the Hugging Face hub, called only when they are needed, and the answers for the
reads that `--offline` skips: each says that it was skipped, and the checks report what is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from xsft.base.errors import Unreachable
from xsft.data.facts import DataFacts, HubDataFacts
from xsft.data.read_rows import read_rows, rows_unread
from xsft.planning.tries import folder_names
from xsft.spec.conversion_inputs import ConversionSource
from xsft.spec.facts import CheckpointFacts, SourceFacts
from xsft.weights.read_checkpoint import read_checkpoint


class HubReader(Struct, frozen=True):
    """The requests that planning sends to the hub; tests and callers with many workloads pass their own."""

    data: Callable[[str], HubDataFacts | None]
    """By data.hf_path."""
    weights: Callable[[ConversionSource], SourceFacts | None]
    commit: Callable[[str, str], str | None] | None = None
    """By repository, as `models/owner/name` or `datasets/owner/name`, and its branch or tag; None: it is not asked."""


def answered_reader(source: SourceFacts | None) -> HubReader:
    """Return a reader that does not ask the hub for weights, because they were already asked for."""
    return HubReader(data=lambda _path: None, weights=lambda _source: source)


def online_reader() -> HubReader:
    """Return the reader that asks the hub."""
    return HubReader(
        data=lambda path: _hub().check_data(path),
        weights=lambda source: _hub().check_weights(source),
        commit=lambda repository, revision: _hub().check_commit(repository, revision),
    )


def _hub() -> Any:
    """Return the module that asks the hub. It is imported at the first request, because most plans send none and the
    library requests takes 0.08 CPU-s to import.
    """
    from xsft.planning import hub

    return hub


WHY = "--offline was given"


def skip_checkpoint(path: str) -> CheckpointFacts:
    """Return that a checkpoint in a bucket was not read; one on this machine is."""
    if path.startswith("gs://"):
        return CheckpointFacts(path=path, status="unreadable", detail=WHY)
    return read_checkpoint(path)


def skip_names(folder: str) -> tuple[str, ...]:
    """Return the names in a folder on this machine. Raises Unreachable for one in a bucket."""
    if folder.startswith("gs://"):
        raise Unreachable(WHY, fix="")
    return folder_names(folder)


def skip_rows(pattern: str | None, /, *, of: str, where: str) -> DataFacts | None:
    """Return that rows in a bucket were not read; those on this machine are."""
    if pattern is not None and pattern.startswith("gs://"):
        return DataFacts(problem=rows_unread(f"{pattern}: {WHY}", where=where))
    return read_rows(pattern, of=of, where=where)


def skip_data(_path: str) -> HubDataFacts:
    return HubDataFacts(unanswered=WHY)


def skip_weights(_source: ConversionSource) -> SourceFacts:
    return SourceFacts(unanswered=WHY)
