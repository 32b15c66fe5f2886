"""The namespaces of clusters in which runs are searched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import UsageError
from xsft.base.names import placeholder_in
from xsft.cluster.places_file import places_file
from xsft.machine.process import own_environment
from xsft.records.index import IndexEntry
from xsft.records.run_cluster import ClusterAddress, address_of

if TYPE_CHECKING:
    from xsft.spec.place import Place  # its models need pydantic

DEFAULT_NAMESPACE = "default"
"""Same as `spec.place.Place.namespace`; a test compares them."""


class PlaceQuery(Struct, frozen=True, kw_only=True):
    """The places in which to search for runs; everywhere if none is named."""

    place: str | None = None
    context: str | None = None
    namespace: str | None = None


class RunSource(Struct, frozen=True, kw_only=True):
    """One namespace of one cluster."""

    name: str
    """The cluster as the user names it: project/zone/cluster, or the context."""
    where: ClusterAddress
    namespace: str
    named: bool = True
    """Named by the user or by places.yaml; else known only from runs that were submitted there from this machine."""


def sources(
    asked: PlaceQuery, *, places: Mapping[str, Place], file: str | None, entries: Iterable[IndexEntry]
) -> tuple[RunSource, ...]:
    """Return each namespace of each cluster once; a placeholder only if it is named. Raises UsageError for a place that
    is not in places.yaml.
    """
    if asked.context is not None:
        return (_source_of(ClusterAddress(context=asked.context), asked.namespace or DEFAULT_NAMESPACE),)
    if asked.place is not None:
        if asked.place not in places:
            known = f"Known: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'})."
            raise UsageError(f"Place {asked.place} was not found. {known}", fix="Use one of them, or --context NAME.")
        return (source_at(places[asked.place], asked.namespace),)
    everywhere = (
        *(
            source_at(place, asked.namespace)
            for place in places.values()
            if placeholder_in(place.project, place.cluster) is None  # else it is as shipped
        ),
        *_submitted_to(entries, asked.namespace),
    )
    return tuple(
        {(one.name, one.namespace): one for one in reversed(everywhere) if names_a_cluster(one.where)}.values()
    )


def known_places() -> tuple[Mapping[str, Place], str | None]:
    if places_file(Path.cwd(), env=own_environment(), home=Path.home()) is None:
        return {}, None
    from xsft.cluster.places import load_places  # its models need pydantic

    return load_places(Path.cwd())


def source_at(place: Place, namespace: str | None) -> RunSource:
    return _source_of(address_of(place), namespace or place.namespace)


def _source_of(where: ClusterAddress, namespace: str) -> RunSource:
    return RunSource(name=where.name, where=where, namespace=namespace)


def _submitted_to(entries: Iterable[IndexEntry], namespace: str | None) -> Iterator[RunSource]:
    for entry in entries:
        if entry.cluster is not None:
            yield replace(_source_of(entry.cluster, namespace or entry.namespace or DEFAULT_NAMESPACE), named=False)


def names_a_cluster(where: ClusterAddress | Place) -> bool:
    return bool(where.context or (where.project and where.zone and where.cluster))
