"""The namespaces of clusters in which runs are searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import UsageError
from xsft.base.names import placeholder_in
from xsft.machine.paths import places_file
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
    query: PlaceQuery, *, places: Mapping[str, Place], file: str | None, entries: Iterable[IndexEntry]
) -> tuple[RunSource, ...]:
    """Return each namespace of each cluster once; a placeholder only if it is named. Raises UsageError for a place that
    is not in places.yaml.
    """
    if query.context is not None:
        return (_source_of(ClusterAddress(context=query.context), query.namespace or DEFAULT_NAMESPACE),)
    if query.place is not None:
        if query.place not in places:
            known_names = f"Known: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'})."
            message = f"Place {query.place} was not found. {known_names}"
            raise UsageError(message, fix="Use one of them, or --context NAME.")
        return (source_at(places[query.place], query.namespace),)
    real = [place for place in places.values() if placeholder_in(place.project, place.cluster) is None]
    everywhere = [source_at(place, query.namespace) for place in real]
    for entry in entries:
        if entry.cluster is not None:
            source = _source_of(entry.cluster, query.namespace or entry.namespace or DEFAULT_NAMESPACE)
            everywhere.append(replace(source, named=False))
    # of two sources with one name the first one counts, which is the one of places.yaml
    return tuple({(s.name, s.namespace): s for s in reversed(everywhere) if names_a_cluster(s.where)}.values())


def known_places() -> tuple[Mapping[str, Place], str | None]:
    if places_file(Path.cwd(), env=own_environment(), home=Path.home()) is None:
        return {}, None
    from xsft.cluster.places import load_places  # its models need pydantic

    return load_places(Path.cwd())


def source_at(place: Place, namespace: str | None) -> RunSource:
    return _source_of(address_of(place), namespace or place.namespace)


def _source_of(where: ClusterAddress, namespace: str) -> RunSource:
    return RunSource(name=where.name, where=where, namespace=namespace)


def names_a_cluster(where: ClusterAddress | Place) -> bool:
    return bool(where.context or (where.project and where.zone and where.cluster))
