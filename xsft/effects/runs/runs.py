"""All runs that can be asked about from here: on the clusters of places.yaml, on those of runs that were submitted from
this machine, and on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from xsft.effects.cluster.cluster import Cluster, connect
from xsft.effects.cluster.delete import Deleted
from xsft.effects.cluster.lists import PATIENCE, Lists, ask_lists
from xsft.effects.machine.parallel import Started, start
from xsft.effects.records.records import RecordStore, record_store
from xsft.effects.runs.sources import Asked, Source, known_places, source_at, sources
from xsft.errors import Unreachable, XsftError
from xsft.problems import Problem

if TYPE_CHECKING:
    from xsft.effects.runs.ask import Look, Target
    from xsft.effects.runs.gather import Gathered
    from xsft.effects.runs.patience import Say
    from xsft.effects.runs.wanted import Effort
    from xsft.records.where import Cluster as Where
    from xsft.spec.place import Place
    from xsft.states.losing import Saved
    from xsft.states.model import JobSet, Observation, Status
    from xsft.states.rows import Row

Begun = tuple[Started[tuple[Cluster, Lists]], ...]
"""Per source, what was asked of its cluster."""


class Reading(Struct, frozen=True, kw_only=True):
    """What all of them said."""

    gathered: Gathered
    known: Callable[[], tuple[str, ...]] = lambda: ()
    """Names of all runs that can be seen from here; asked where one is not found. Reads once more."""

    @property
    def observations(self) -> tuple[Observation, ...]:
        return self.gathered.observations

    def parts(self) -> Iterator[tuple[Observation, ...]]:
        return self.gathered.parts()

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.gathered.problems

    @property
    def answered(self) -> bool:
        return self.gathered.answered

    @property
    def whole(self) -> bool:
        return self.gathered.whole


class Runs(Struct, frozen=True, kw_only=True):
    """The runs that were asked about; a connection is kept for the next look."""

    sources: tuple[Source, ...]
    store: RecordStore
    names: tuple[str, ...] = ()
    """Of runs or JobSets; none: all."""
    everything: bool = False
    """Also the progress of what ended long ago."""
    local: bool = True
    """Also the runs on this machine."""
    effort: Effort | None = None
    """None: as `Effort` is unless told otherwise."""
    connect: Callable[[Where], Cluster] = lambda where: connect(where, patience=PATIENCE)
    connected: dict[str, Cluster] = field(default_factory=dict)
    """By the cluster's name."""
    refused: dict[str, Unreachable] = field(default_factory=dict)
    """As `connected`: where it failed a moment ago; the next look need not wait for that once more."""
    listeners: list[Say] = field(default_factory=list)
    """At most one, who hears which cluster is waited for."""
    begun: list[Begun] = field(default_factory=list)

    def listen(self, say: Say) -> None:
        self.listeners[:] = [say]

    def begin(self) -> None:
        """Ask already: while the clusters answer, there is time to load what is needed then. The next `read` waits."""
        self.begun.append(self._begun())

    def read(self) -> Reading:
        """All sources at once. Never raises for one that does not answer: that is a problem beside the others."""
        look = self._look(self.begun.pop() if self.begun else self._begun(), self.names, self.effort)
        return Reading(gathered=self._gather(look), known=self._known if self.names else lambda: ())

    def keep(self, seen: Iterable[tuple[Observation, Status]]) -> None:
        """For when a cluster does not answer."""
        from xsft.effects.runs.lastknown import remember

        remember(self.store.state, seen, now=self.store.now())

    def cluster(self, name: str) -> Cluster:
        """The connection to a cluster that was read. Raises as connecting does."""
        if name in self.refused:
            raise self.refused.pop(name)
        if name not in self.connected:
            self.connected[name] = self.connect(next(one.where for one in self.sources if one.name == name))
        return self.connected[name]

    def delete(self, seen: Observation, jobset: JobSet) -> Deleted:
        """Raises as `Cluster.delete_jobset`."""
        cluster = self.cluster(seen.cluster or "")
        return cluster.delete_jobset(name=jobset.name, namespace=jobset.namespace, uid=jobset.uid)

    def record_cancel(self, seen: Observation, jobset: JobSet) -> tuple[Problem, ...]:
        """Beside the run, and here too: its output may not be read when this machine is asked next."""
        from xsft.effects.submit.cancelling import cancelled, record_cancel
        from xsft.effects.submit.recording import (
            user_name,  # it knows whole workloads, which who only looks need not load
        )

        self.keep((cancelled(seen, jobset, now=self.store.now()),))
        return record_cancel(self.store, jobset, user=user_name())

    def record_worthless(self, row: Row) -> tuple[Problem, ...]:
        from xsft.effects.submit.cancelling import record_worthless

        return record_worthless(self.store, row)

    def stop_local(self, seen: Observation) -> bool:
        """Only where its folder is known, and the kernel says who holds its lock."""
        from xsft.effects.local.folder import RunFolder
        from xsft.effects.local.stop import interrupt_holder

        output = self.output_of(seen)
        return output is not None and interrupt_holder(RunFolder(path=Path(output) / seen.run_name).lock) is not None

    def output_of(self, seen: Observation) -> str | None:
        """base_output_directory; None where neither the run itself nor exactly one entry of the index tells it."""
        held = seen.jobset or seen.was
        if said := seen.output or (held.output if held else None):
            return said
        entries = self.store.local_index().entries
        found = {e.output for e in entries if (e.target, e.run_name) == (seen.target, seen.run_name)}
        return found.pop() if len(found) == 1 else None

    def saved(self, seen: Observation) -> Saved:
        """The checkpoints beside its output, asked for now. Never raises: what cannot be read is said to be unknown."""
        from xsft.effects.records.saved import latest_step
        from xsft.states.losing import Saved

        output = self.output_of(seen)
        if output is None:
            return Saved(why="nothing tells where its output is")
        try:
            step = latest_step(self.store.objects_at(output), output=output, run_name=seen.run_name)
        except XsftError as failed:
            return Saved(why=failed.message)
        if step is None and seen.on_cluster and not output.startswith("gs://"):
            return Saved(why=f"{output} is no bucket; it may be a folder of its pods")
        return Saved(step=step)

    def _known(self) -> tuple[str, ...]:
        from xsft.effects.runs.wanted import Effort

        found = self._gather(self._look(self._begun(), (), Effort(progress_s=0))).observations
        return tuple(
            {name for seen in found for name in (seen.run_name, seen.jobset.name if seen.jobset else None) if name}
        )

    def _begun(self) -> Begun:
        return tuple(start(partial(self._asked, one)) for one in self.sources)

    def _asked(self, source: Source) -> tuple[Cluster, Lists]:
        cluster = self.cluster(source.name)
        return cluster, ask_lists(cluster, namespace=source.namespace)

    def _look(self, begun: Begun, names: tuple[str, ...], effort: Effort | None) -> Look:
        from xsft.effects.runs.ask import begin  # loaded while the clusters answer

        targets = tuple(map(_target, self.sources, begun))
        return begin(targets, store=self.store, names=names, everything=self.everything, effort=effort)

    def _gather(self, look: Look) -> Gathered:
        from xsft.effects.runs.gather import gather_runs  # loaded while the clusters answer

        say = self.listeners[0] if self.listeners else lambda _line: None
        return gather_runs(look, store=self.store, local=self.local, say=say)


def _target(source: Source, asked: Started[tuple[Cluster, Lists]]) -> Target:
    from xsft.effects.runs.ask import Target

    return Target(
        name=source.name,
        namespace=source.namespace,
        named=source.named,
        connect=lambda: asked.result()[0],
        lists=lambda _: asked.result()[1],
    )


def runs_for(asked: Asked, *, names: Iterable[str] = (), everything: bool = False) -> Runs:
    """Raises UsageError for a place that is not in places.yaml, SpecError where that file is wrong. Where a place or a
    context is named, also what makes it impossible to reach: UsageError, EnvironmentMissing.
    """
    places, file = ({}, None) if asked.context is not None else known_places()
    store = record_store()
    runs = Runs(
        sources=sources(asked, places=places, file=file, entries=store.local_index().entries),
        store=store,
        names=tuple(names),
        everything=everything,
        local=asked.place is None and asked.context is None,
    )
    if not runs.local:
        try:
            runs.cluster(runs.sources[0].name)
        except Unreachable as failed:  # it may answer when it is asked again
            runs.refused[runs.sources[0].name] = failed
    runs.begin()
    return runs


def runs_at_place(place: Place, *, namespace: str, name: str) -> Runs:
    """Of one name, on one cluster, in one namespace."""
    return Runs(sources=(source_at(place, namespace),), store=record_store(), names=(name,), local=False)
