"""The runs that this machine can see, and actions on exactly one of them."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.fakes.clusters import standing_in
from tests.fakes.kuberuns import Runs as FakeRuns
from tests.observations import jobset, local, observed
from tests.replacing import replace
from xsft.base.errors import SpecError, Unreachable, UsageError
from xsft.cluster.api import Patience
from xsft.cluster.cluster import connect
from xsft.cluster.observation import Observation, Status
from xsft.cluster.sources import PlaceQuery, RunSource
from xsft.machine.objects import LocalObjects, Objects
from xsft.records.index import Index, IndexEntry, keep_entry
from xsft.records.record import Attempt, Record
from xsft.records.record_files import RecordStore
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.read_all import Runs, runs_for
from xsft.runs.record_end import record_failed_jobs


def entry(name: str = "gemma", **changed: Any) -> IndexEntry:
    return IndexEntry(**{"run_name": name, "target": "xpk", "output": "gs://b/runs", **changed})


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    store = RecordStore(state=tmp_path / "state", objects_at=lambda _: LocalObjects())
    return Runs(sources=(), store=store)


def test_reading_without_clusters_and_runs_is_a_complete_empty_answer(runs: Runs) -> None:
    read = runs.read()
    assert (read.observations, read.problems, read.answered, read.whole) == ((), (), True, True)


def test_the_index_is_read_before_the_lists_are_requested(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is recorded and not listed is gone, not just created."""
    order: list[str] = []

    def connect(_where: object) -> Any:
        order.append("lists")
        raise Unreachable("no")

    def read(_folder: Path) -> Index:
        order.append("index")
        return Index(entries=(), problems=())

    monkeypatch.setattr("xsft.records.record_files.read_index", read)
    where = ClusterAddress(context="a")
    source = RunSource(name="a", where=where, namespace="default")
    replace(runs, sources=(source,), connect=connect).read()
    assert order == ["index", "lists"]


def test_namespaces_of_one_cluster_share_one_connection(runs: Runs) -> None:
    """Its login program may open a browser: it must run once, not once for each namespace."""
    connected: list[object] = []

    def connect(where: object) -> Any:
        connected.append(where)
        raise Unreachable("no login")

    where = ClusterAddress(context="a")
    sources = tuple(RunSource(name="a", where=where, namespace=name) for name in ("one", "two", "three"))
    read = replace(runs, sources=sources, connect=connect).read()
    assert (len(read.problems), read.answered) == (3, False)
    assert connected == [where]


def test_output_of_returns_the_output_of_the_jobset_or_of_the_index(runs: Runs, tmp_path: Path) -> None:
    gone = observed(jobset=None)
    assert runs.output_of(observed(jobset=jobset(output="gs://a"))) == "gs://a"
    assert runs.output_of(gone) is None
    keep_entry(runs.store.state / "runs", entry())
    assert runs.output_of(gone) == "gs://b/runs"
    keep_entry(runs.store.state / "runs", entry(output="gs://c/runs"))
    assert runs.output_of(gone) is None, "two of that name: which is not known"
    assert runs.output_of(observed(jobset=None, was=jobset(output="gs://d"))) == "gs://d"
    assert runs.output_of(local("tiny", output="/e")) == "/e"


def test_stop_local_does_not_interrupt_a_run_without_a_process(runs: Runs, tmp_path: Path) -> None:
    assert not runs.stop_local(local("tiny"))
    keep_entry(runs.store.state / "runs", entry("tiny", target="local", output=str(tmp_path)))
    assert not runs.stop_local(local("tiny"))


def test_a_failed_conversion_job_is_recorded_when_it_is_seen(runs: Runs, tmp_path: Path) -> None:
    """A container that was killed for memory cannot record its own end."""
    attempt = Attempt(number=1, outcome="submitting", submitter="ab" * 8, jobset="gemma-convert", uid="uid-1")
    runs.store.begin(Record(run_name="gemma-convert", target="xpk", output=str(tmp_path), attempts=(attempt,)))
    jobset_object = jobset("gemma-convert", uid="uid-1", work="convert", output=str(tmp_path))
    observation = observed("gemma-convert", jobset=jobset_object, progress=None)
    assert recorded(runs, tmp_path, observation, Status(state="training")) == ("submitting", None)
    assert recorded(runs, tmp_path, observation, Status(state="failed", reason="oom-killed")) == (
        "failed",
        "oom-killed",
    )
    later = replace(observation, jobset=replace(jobset_object, uid="uid-2"))
    assert recorded(runs, tmp_path, later, Status(state="failed", reason="backoff")) == ("failed", "oom-killed")


def test_recording_a_failed_job_does_not_delay_status(runs: Runs) -> None:
    """If the bucket is silent or refuses, one short attempt is made for each job, without a message."""
    paths: list[str] = []

    def refuse(path: str) -> Objects:
        paths.append(path)
        raise Unreachable("permission denied")

    closed = replace(runs, store=RecordStore(state=runs.store.state, objects_at=refuse))
    jobset_object = jobset("gemma-convert", work="convert")
    failed = (
        observed("gemma-convert", jobset=jobset_object, progress=None),
        Status(state="failed", reason="oom-killed"),
    )
    closed.keep([failed])
    closed.keep([failed])
    assert len(paths) == 1
    ended = Event()
    silent = RecordStore(state=runs.store.state / "new", objects_at=lambda _: _after(ended))
    record_failed_jobs(silent, [(jobset_object, "oom-killed")], limit_s=0.05)
    ended.set()


def _after(ended: Event) -> Objects:
    ended.wait()
    return LocalObjects()


def recorded(runs: Runs, output: Path, observation: Observation, status: Status) -> tuple[str, str | None]:
    runs.keep([(observation, status)])
    (record,) = runs.store.read_run(str(output), "gemma-convert")
    return record.last.outcome, record.last.reason


def test_a_context_does_not_read_the_places_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a named context, errors in places.yaml do not matter."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "places.yaml").write_text("main: {nonsense: 1}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert [problem.severity for problem in runs_for(PlaceQuery()).unread_places] == ["warning"]
    with pytest.raises(SpecError):
        runs_for(PlaceQuery(place="main"))
    with pytest.raises(UsageError, match="no context lab"):
        runs_for(PlaceQuery(context="lab"))


def test_a_truncated_list_is_reported_as_incomplete(tmp_path: Path) -> None:
    store = RecordStore(state=tmp_path / "state", objects_at=lambda _: LocalObjects())
    patience = Patience(tries=1)
    with standing_in(tmp_path) as api:
        FakeRuns(api.standin.objects).admitted("a")
        source = RunSource(name="stand-in", where=ClusterAddress(context="stand-in"), namespace="default")
        api.server.fail("/jobsets", action="short", times=9)
        connected = connect(ClusterAddress(context=api.context), here=api.here, patience=patience)
        read = Runs(sources=(source,), store=store, local=False, connect=lambda _: connected).read()
        assert not read.whole
