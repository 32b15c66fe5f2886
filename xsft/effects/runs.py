"""All runs that can be asked about from here: on the clusters of places.yaml, on those of runs that were submitted from
this machine, and on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from xsft.effects import clock
from xsft.effects.cancelling import record_cancel
from xsft.effects.cluster import Cluster, connect
from xsft.effects.cluster_delete import Deleted
from xsft.effects.local_folder import RunFolder
from xsft.effects.local_stop import interrupt_holder
from xsft.effects.observe import PATIENCE, observe_cluster
from xsft.effects.places import load_places
from xsft.effects.recordindex import IndexEntry
from xsft.effects.recording import user_name
from xsft.effects.records import RecordStore, record_store
from xsft.errors import UsageError, XsftError
from xsft.problems import Problem
from xsft.records.model import Cluster as Where
from xsft.spec.place import Place
from xsft.states.model import JobSet, Observation


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


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The runs that were asked about; a connection is kept for the next look."""

    sources: tuple[Source, ...]
    store: RecordStore
    connect: Callable[[Place], Cluster] = lambda place: connect(place, patience=PATIENCE)
    now: Callable[[], str] = clock.now
    connected: dict[str, Cluster] = field(default_factory=dict)
    """By the cluster's name."""

    def read(self) -> Reading:
        """All sources at once. Never raises for one that does not answer: that is a problem beside the others."""
        if not self.sources:
            return Reading()
        with ThreadPoolExecutor(max_workers=min(16, len(self.sources))) as pool:
            answers = tuple(pool.map(self._answer, self.sources))
        problems = tuple(one for one in answers if isinstance(one, Problem))
        observations = tuple(seen for one in answers if not isinstance(one, Problem) for seen in one)
        return Reading(
            observations=observations,
            problems=problems,
            answered=len(problems) < len(answers),
            whole=not problems,
        )

    def cluster(self, name: str) -> Cluster:
        """The connection to a cluster that was read. Raises as connecting does."""
        if name not in self.connected:
            self.connected[name] = self.connect(next(one.place for one in self.sources if one.name == name))
        return self.connected[name]

    def delete(self, seen: Observation, jobset: JobSet) -> Deleted:
        """Raises as `Cluster.delete_jobset`."""
        cluster = self.cluster(seen.cluster or "")
        return cluster.delete_jobset(name=jobset.name, namespace=jobset.namespace, uid=jobset.uid)

    def record_cancel(self, _seen: Observation, jobset: JobSet) -> tuple[Problem, ...]:
        return record_cancel(self.store, jobset, user=user_name())

    def stop_local(self, seen: Observation) -> bool:
        """Only where exactly one run of that name is in the index, and the kernel says who holds its lock."""
        output = self.output_of(seen)
        return output is not None and interrupt_holder(RunFolder(path=Path(output) / seen.run_name).lock) is not None

    def output_of(self, seen: Observation) -> str | None:
        """base_output_directory; None where neither the JobSet nor exactly one entry of the index tells it."""
        if seen.jobset is not None and seen.jobset.output:
            return seen.jobset.output
        entries = self.store.local_index().entries
        found = {e.output for e in entries if (e.target, e.run_name) == (seen.target, seen.run_name)}
        return found.pop() if len(found) == 1 else None

    def _answer(self, source: Source) -> tuple[Observation, ...] | Problem:
        try:
            cluster = self.cluster(source.name)
            return observe_cluster(cluster, namespace=source.namespace, name=source.name, now=self.now())
        except XsftError as failed:
            (first, *_) = failed.problems
            return replace(first, severity="warning", message=f"{source.name}: {first.message}")


def runs_for(asked: Asked) -> Runs:
    """Raises UsageError for a place that is not in places.yaml, SpecError where that file is wrong."""
    places, file = load_places(Path.cwd())
    store = record_store()
    return Runs(sources=sources(asked, places=places, file=file, entries=store.local_index().entries), store=store)


def runs_at_place(place: Place, *, namespace: str) -> Runs:
    """Of one cluster and namespace."""
    return Runs(sources=(_source(place, namespace),), store=record_store())


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


def _place(where: Where, *, namespace: str) -> Place:
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
