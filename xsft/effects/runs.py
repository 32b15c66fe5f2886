"""All runs that can be asked about from here: on the clusters of places.yaml, on those of runs that were submitted from
this machine, and on this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xsft.effects.recordindex import IndexEntry
from xsft.errors import UsageError
from xsft.problems import Problem
from xsft.records.model import Cluster
from xsft.spec.place import Place
from xsft.states.model import Observation


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Where to look. Nothing named: everywhere."""

    place: str | None = None
    context: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """One namespace of one cluster."""

    name: str
    """The cluster as the user names it: project/zone/cluster, or the context."""
    place: Place

    @property
    def namespace(self) -> str:
        return self.place.namespace


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What all of them said."""

    observations: tuple[Observation, ...] = ()
    problems: tuple[Problem, ...] = ()
    answered: bool = True
    """Anything could be read at all."""
    whole: bool = True
    """Everything that was asked answered."""


def sources(
    asked: Asked, *, places: dict[str, Place], file: str | None, entries: Iterable[IndexEntry]
) -> tuple[Source, ...]:
    """Each namespace of each cluster once. Raises UsageError for a place that is not in places.yaml."""
    if asked.context is not None:
        return (_source(Place(context=asked.context), asked.namespace),)
    if asked.place is not None:
        if asked.place not in places:
            known = f"Known: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'})."
            raise UsageError(f"There is no place {asked.place}. {known}", fix="Name one of them, or --context NAME.")
        return (_source(places[asked.place], asked.namespace),)
    everywhere = (*places.values(), *_submitted_to(entries))
    found = [_source(place, asked.namespace) for place in everywhere if _names_a_cluster(place)]
    return tuple({(one.name, one.namespace): one for one in reversed(found)}.values())


def cluster_name(place: Place) -> str:
    return place.context or f"{place.project}/{place.zone}/{place.cluster}"


def _source(place: Place, namespace: str | None) -> Source:
    return Source(name=cluster_name(place), place=place.model_copy(update={"namespace": namespace or place.namespace}))


def _submitted_to(entries: Iterable[IndexEntry]) -> Iterator[Place]:
    for entry in entries:
        if entry.cluster is not None:
            yield _place(entry.cluster, namespace=entry.namespace or "default")


def _place(where: Cluster, *, namespace: str) -> Place:
    """As it was recorded: what was accepted once is not judged again."""
    return Place.model_construct(
        project=where.project,
        zone=where.zone,
        cluster=where.cluster,
        context=where.context,
        namespace=namespace,
    )


def _names_a_cluster(place: Place) -> bool:
    return bool(place.context or (place.project and place.zone and place.cluster))
