"""Reads the runs on the clusters of places.yaml, on the clusters of runs that were submitted from here, and on this
machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as replace_fields
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from xsft.base.errors import SpecError, Unreachable, UsageError, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.cluster.api import FOR_READS
from xsft.cluster.cluster import Cluster, connect
from xsft.cluster.exactly_once import DeleteOutcome
from xsft.cluster.observation import Observation, RunObject, Status
from xsft.cluster.sources import PlaceQuery, RunSource, known_places, source_at, sources
from xsft.machine.filelock import interrupt_holder
from xsft.machine.objects import latest_step
from xsft.machine.parallel import start
from xsft.machine.process import user_name
from xsft.records.record_files import RecordStore, record_store
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.classify import classify
from xsft.runs.lastknown import forget_run, newly_failed_jobs, recall, remember
from xsft.runs.local_runs import lock_of
from xsft.runs.lookup import RowFilter, RunsAnswer, RunsRead, answer_of, chosen, first_missing_run, named
from xsft.runs.losing import SavedSteps
from xsft.runs.read_progress import progress_in_metrics
from xsft.runs.read_runs import SourceCall, read_runs
from xsft.runs.read_scope import ReadLimits, ReadScope
from xsft.runs.record_end import cancelled, record_cancel, record_failed_jobs, record_worthless
from xsft.runs.rows import Row, zero_loss

if TYPE_CHECKING:
    from xsft.records.record import Record
    from xsft.spec.place import Place  # its models need pydantic


class RunAccess(Protocol):
    """Access to the runs; described and implemented by `runs.read_all.Runs`."""

    def now(self) -> str: ...

    def look(self) -> RunsAnswer: ...

    def listen(self, say: ShowLine, /) -> None: ...

    def keep(self, observations: Iterable[tuple[Observation, Status]], /) -> None: ...

    def delete(self, observation: Observation, jobset: RunObject, /) -> DeleteOutcome: ...

    def record_cancel(self, observation: Observation, jobset: RunObject, /) -> tuple[Problem, ...]: ...

    def stop_local(self, observation: Observation, /) -> bool: ...

    def saved(self, observation: Observation, /) -> SavedSteps: ...


class StatusRead(Struct, frozen=True, kw_only=True):
    """The rows that a filter selects, as of one read."""

    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]
    """Clusters that did not answer, and runs whose loss is 0.000."""
    missing: XsftError | None
    """The error for the names that no run has, or that could not be read."""
    found: RunsAnswer
    """All runs."""


def read_status(runs: RunAccess, wanted: RowFilter) -> StatusRead:
    """Read the runs now. Raises Unreachable if nothing could be read."""
    answer = runs.look()
    rows = tuple(one.row for one in chosen(answer.rows, wanted))
    problems = (*answer.problems, *(one for row in rows for one in zero_loss(row)))
    return StatusRead(rows=rows, problems=problems, missing=first_missing_run(wanted.runs, answer), found=answer)


class Runs(Struct, kw_only=True, eq=False):
    """The runs that the user asked about. Mutable: connections are kept for the next read."""

    sources: tuple[RunSource, ...]
    store: RecordStore
    names: tuple[str, ...] = ()
    """Names of runs or JobSets; empty: all."""
    everything: bool = False
    """Also read the progress of runs that ended long ago."""
    every_pod: bool = False
    """Also read the pods of all hosts, as an explanation needs them."""
    local: bool = True
    """Also read the runs on this machine."""
    limits: ReadLimits = ReadLimits()
    connect: Callable[[ClusterAddress], Cluster] = lambda where: connect(where, patience=FOR_READS)
    connected: dict[str, Cluster] = field(default_factory=dict)
    """Connections by the cluster's name."""
    refused: dict[str, Unreachable] = field(default_factory=dict)
    """Clusters whose connection just failed, as in `connected`; the next read does not wait for them again."""
    say: ShowLine = lambda _line: None
    """Called with a line that names the cluster being waited for."""
    unread_places: tuple[Problem, ...] = ()
    """Why places.yaml could not be read, as warnings: runs that were submitted from here are shown without it."""

    def listen(self, say: ShowLine) -> None:
        self.say = say

    def now(self) -> str:
        return self.store.now()

    def read(self) -> RunsRead:
        """Read all sources at once. Never raises if one does not answer: that is a problem in the result."""
        index = self.store.local_index()  # before the lists: a run that is in the index and in no list is gone
        scope = ReadScope(
            names=frozenset(self.names),
            everything=self.everything,
            every_pod=self.every_pod,
            limits=self.limits,
            now=self.now(),
        )
        # namespaces of one cluster share a connection, and so its login
        clusters = {name: start(partial(self.cluster, name)) for name in {source.name for source in self.sources}}
        calls = [SourceCall(source=source, cluster=clusters[source.name]) for source in self.sources]
        read = read_runs(calls, scope=scope, store=self.store, index=index, local=self.local, say=self.say)
        every_source = read.whole and not self.unread_places
        return replace(read, problems=(*self.unread_places, *read.problems), whole=every_source)

    def look(self) -> RunsAnswer:
        """Read all sources at once, and save the states. Raises Unreachable if none answers."""
        answer = answer_of(self.read(), classify=classify, now=self.now())
        self.keep((run.seen, run.status) for run in answer.rows)
        if all(named(answer.rows, name) for name in self.names):
            return answer
        # names of runs that were submitted from this machine, or seen by it
        names = [entry.run_name for entry in self.store.local_index().entries]
        for cluster, namespace in {(source.name, source.namespace) for source in self.sources}:
            states = recall(self.store.state, cluster=cluster, namespace=namespace)
            names += [last.jobset.run_name for last in states.values()]
        return replace(answer, neighbours=tuple(names))

    def keep(self, observations: Iterable[tuple[Observation, Status]]) -> None:
        """Save the states, to be shown if a cluster does not answer later; record the jobs that failed since the last
        read beside their runs.
        """
        pairs = tuple(observations)
        record_failed_jobs(self.store, newly_failed_jobs(self.store.state, pairs))
        remember(self.store.state, pairs, now=self.store.now())

    def cluster(self, name: str) -> Cluster:
        """Return the connection to a cluster that was read. Raises as connecting does."""
        if name in self.refused:
            raise self.refused.pop(name)
        if name not in self.connected:
            self.connected[name] = self.connect(next(source.where for source in self.sources if source.name == name))
        return self.connected[name]

    def delete(self, observation: Observation, jobset: RunObject) -> DeleteOutcome:
        """Delete the JobSet or the server's Deployment, unless the run ended since it was read: the user may have taken
        minutes to agree. Raises as `Cluster.delete_jobset`.
        """
        cluster = self.cluster(observation.cluster or "")
        now = cluster.reads.again(jobset)
        if now is not None and now.uid == jobset.uid and now.terminal:
            return "ended"
        delete = cluster.servers.delete if jobset.serves else cluster.delete_jobset
        return delete(name=jobset.name, namespace=jobset.namespace, uid=jobset.uid)

    def record_cancel(self, observation: Observation, jobset: RunObject) -> tuple[Problem, ...]:
        """Record the cancellation beside the run and on this machine: the output may not be readable at the next `xsft
        status` of this machine.
        """
        self.keep((cancelled(observation, jobset, now=self.store.now()),))
        return record_cancel(self.store, jobset, user=user_name())

    def record_worthless(self, row: Row) -> tuple[Problem, ...]:
        return record_worthless(self.store, row)

    def stop_local(self, observation: Observation) -> bool:
        """Stop a run on this machine. Return False unless its folder is known and the kernel names the process that
        holds its lock.
        """
        output = self.output_of(observation)
        return output is not None and interrupt_holder(lock_of(output, observation.run_name)) is not None

    def output_of(self, observation: Observation) -> str | None:
        """Return the run's base_output_directory; None if neither the run nor exactly one index entry has it."""
        if output := observation.output or (observation.held.output if observation.held else None):
            return output
        entries = self.store.local_index().entries
        outputs = {e.output for e in entries if (e.target, e.run_name) == (observation.target, observation.run_name)}
        return outputs.pop() if len(outputs) == 1 else None

    def records(self, observation: Observation) -> tuple[Record, ...]:
        """Return the records of the run's attempts, the first one first. Raises Unreachable if they cannot be read."""
        output = self.output_of(observation)
        return self.store.read_run(output, observation.run_name) if output else ()

    def saved(self, observation: Observation) -> SavedSteps:
        """Return the checkpoints and the last step in the metrics that are beside the run's output now. Never raises:
        if they cannot be read, the result says that they are unknown.
        """
        output = self.output_of(observation)
        if output is None:
            return SavedSteps(why="its output folder is unknown")
        try:
            step = latest_step(self.store.objects_at(output), output=output, run_name=observation.run_name)
            metrics = progress_in_metrics(output, observation.run_name, self.store)
        except XsftError as failed:
            return SavedSteps(why=failed.clause)
        if step is None and observation.on_cluster and not output.startswith("gs://"):
            return SavedSteps(why=f"{output} is not a bucket; it may be a folder in its pods")
        return SavedSteps(step=step, reached=metrics.step if metrics else None)


def forget_runs(names: Sequence[str]) -> None:
    """Delete what this machine knows of these runs. Raises UsageError for a name of which it knows nothing."""
    store = record_store()
    for name in names:
        if not forget_run(store.state, name, now=store.now()):
            message = f"This machine knows no run {name!r}."
            raise UsageError(message, fix="xsft status --all shows all.", id="run-missing")


def runs_for(query: PlaceQuery, *, names: Iterable[str] = (), everything: bool = False) -> Runs:
    """Return the runs for a query. Raises UsageError for a place that is not in places.yaml, SpecError if it is named
    and that file is invalid. If a place or a context is named, also raises what prevents connecting to it: UsageError,
    EnvironmentMissing.
    """
    places: Mapping[str, Place] = {}
    file: str | None = None
    unread: tuple[Problem, ...] = ()
    if query.context is None:
        try:
            places, file = known_places()
        except SpecError as wrong:
            if query.place is not None:
                raise
            unread = tuple(replace_fields(problem, severity="warning") for problem in wrong.problems)
    store = record_store()
    runs = Runs(
        unread_places=unread,
        sources=sources(query, places=places, file=file, entries=store.local_index().entries),
        store=store,
        names=tuple(names),
        everything=everything,
        local=query.place is None and query.context is None,
    )
    if not runs.local:
        try:
            runs.cluster(runs.sources[0].name)
        except Unreachable as failed:  # the next request may succeed
            runs.refused[runs.sources[0].name] = failed
    return runs


def runs_of(
    names: Sequence[str], *, place: str | None, context: str | None, namespace: str | None, everything: bool = True
) -> Runs:
    """Return the runs of these names (none: all) in this place or context; None: in all of places.yaml, the clusters
    of runs submitted from this machine, and this machine.
    """
    place_query = PlaceQuery(place=place, context=context, namespace=namespace)
    return runs_for(place_query, names=names, everything=everything)


def runs_at_place(place: Place, *, namespace: str, name: str) -> Runs:
    """Return the runs with one name, on one cluster, in one namespace."""
    return Runs(sources=(source_at(place, namespace),), store=record_store(), names=(name,), local=False)
