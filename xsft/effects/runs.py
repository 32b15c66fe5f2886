"""All runs that can be asked about from here: on the clusters of places.yaml, on those of runs that were submitted from
this machine, and on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from xsft.effects.cancelling import record_cancel
from xsft.effects.cluster import Cluster, connect
from xsft.effects.cluster_delete import Deleted
from xsft.effects.lastknown import remember
from xsft.effects.local_folder import RunFolder
from xsft.effects.local_stop import interrupt_holder
from xsft.effects.observe import PATIENCE
from xsft.effects.observe_gather import Effort, Gathered, Target, gather_runs
from xsft.effects.places import load_places
from xsft.effects.recordindex import IndexEntry
from xsft.effects.records import RecordStore, record_store
from xsft.errors import Unreachable, UsageError
from xsft.problems import Problem
from xsft.records.model import Cluster as Where
from xsft.spec.place import Place
from xsft.states.model import JobSet, Observation, Status


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

    gathered: Gathered
    known: Callable[[], tuple[str, ...]] = lambda: ()
    """Names of all runs that can be seen from here; asked where one is not found. Reads once more."""

    @property
    def observations(self) -> tuple[Observation, ...]:
        return self.gathered.observations

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.gathered.problems

    @property
    def answered(self) -> bool:
        return self.gathered.answered

    @property
    def whole(self) -> bool:
        return self.gathered.whole


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The runs that were asked about; a connection is kept for the next look."""

    sources: tuple[Source, ...]
    store: RecordStore
    names: tuple[str, ...] = ()
    """Of runs or JobSets; none: all."""
    everything: bool = False
    """Also the progress of what ended long ago."""
    local: bool = True
    """Also the runs on this machine."""
    effort: Effort = field(default_factory=Effort)
    connect: Callable[[Place], Cluster] = lambda place: connect(place, patience=PATIENCE)
    connected: dict[str, Cluster] = field(default_factory=dict)
    """By the cluster's name."""

    def read(self) -> Reading:
        """All sources at once. Never raises for one that does not answer: that is a problem beside the others."""
        return Reading(gathered=self._gather(self.names, self.effort), known=self._known if self.names else lambda: ())

    def keep(self, seen: Iterable[tuple[Observation, Status]]) -> None:
        """For when a cluster does not answer."""
        remember(self.store.state, seen, now=self.store.now())

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
        from xsft.effects.recording import user_name  # it knows whole workloads, which who only looks need not load

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

    def _known(self) -> tuple[str, ...]:
        found = self._gather((), Effort(progress_s=0)).observations
        return tuple(
            {name for seen in found for name in (seen.run_name, seen.jobset.name if seen.jobset else None) if name}
        )

    def _gather(self, names: tuple[str, ...], effort: Effort) -> Gathered:
        targets = tuple(
            Target(name=one.name, namespace=one.namespace, connect=partial(self.cluster, one.name))
            for one in self.sources
        )
        return gather_runs(
            targets, store=self.store, names=names, everything=self.everything, local=self.local, effort=effort
        )


def runs_for(asked: Asked, *, names: Iterable[str] = (), everything: bool = False) -> Runs:
    """Raises UsageError for a place that is not in places.yaml, SpecError where that file is wrong. Where a place or a
    context is named, also what makes it impossible to reach: UsageError, EnvironmentMissing.
    """
    places, file = load_places(Path.cwd())
    store = record_store()
    runs = Runs(
        sources=sources(asked, places=places, file=file, entries=store.local_index().entries),
        store=store,
        names=tuple(names),
        everything=everything,
        local=asked.place is None and asked.context is None,
    )
    if not runs.local:
        with suppress(Unreachable):  # it may answer when it is asked again
            runs.cluster(runs.sources[0].name)
    return runs


def runs_at_place(place: Place, *, namespace: str, name: str) -> Runs:
    """Of one name, on one cluster, in one namespace."""
    return Runs(sources=(_source(place, namespace),), store=record_store(), names=(name,), local=False)


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
