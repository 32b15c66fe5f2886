"""What is asked before the lists have come: the same is told as without it, sooner."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effects.test_progress import STEP
from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.kuberuns import QUEUED, RUNNING, ended
from tests.fakes.kuberuns import Runs as FakeRuns
from tests.faults.fault import Seen
from tests.observations import jobset
from xsft.effects import observe_ahead
from xsft.effects.cluster import connect_context
from xsft.effects.cluster_api import Patience
from xsft.effects.first_pods import printer_of
from xsft.effects.objects import LocalObjects
from xsft.effects.observe_wanted import Effort
from xsft.effects.printer_log import THREADS, hear
from xsft.effects.recordindex import IndexEntry, keep
from xsft.effects.records import RecordStore
from xsft.effects.runs import Runs
from xsft.effects.sources import Source
from xsft.records.where import Cluster as Where
from xsft.states.model import Pod

STARTING = {"restarts": 0, "replicatedJobsStatus": [{"name": "slice-job", "active": 2}]}
LOG, PODS = "/log", r"/pods\?"
Told = dict[str, tuple[Any, ...]]


class Looks:
    """At the stand-in, one after the other."""

    def __init__(self, api: ClusterApi, folder: Path) -> None:
        self.api, self.folder = api, folder
        self.there = FakeRuns(api.standin.objects)
        self.made: dict[str, dict[str, Any]] = {}
        self.asked: list[Seen] = []
        self.state = folder / "state"

    def run(self, name: str, status: dict[str, Any] = RUNNING) -> None:
        self.made[name] = self.there.jobset(name, status=status)

    def now(self, name: str, status: dict[str, Any]) -> None:
        self.made[name]["spec"]["suspend"] = status == QUEUED
        self.made[name]["status"] = status

    def says(self, name: str, *steps: int, tag: str = "abcde", attempt: int = 0) -> None:
        pod = f"{name}-slice-job-0-0-{tag}"
        if ("default", pod) not in self.api.standin.objects.of("/pods"):
            self.there.pod(name, tag=tag, attempt=attempt)
        self.api.standin.logs.say(pod, *(STEP.format(n=n) for n in steps))

    def gone(self, name: str, tag: str = "abcde") -> None:
        pod = f"{name}-slice-job-0-0-{tag}"
        self.api.standin.objects.of("/pods").pop(("default", pod), None)
        self.api.standin.logs.gone(pod)

    def look(self, *names: str, cache: str = "cache", effort: Effort | None = None) -> Told:
        before = len(self.api.server.seen)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XSFT_CACHE_DIR", str(self.folder / cache))
            seen = self._runs(names, effort).read().observations
        self.asked = self.api.server.seen[before:]
        return {
            one.jobset.name: (one.progress and one.progress.step, one.jobset, one.pods, one.unread)
            for one in seen
            if one.jobset
        }

    def plainly(self, *names: str) -> Told:
        """As somebody who looks for the first time."""
        with tempfile.TemporaryDirectory(dir=self.folder) as empty:
            return self.look(*names, cache=os.path.relpath(empty, self.folder))

    def count(self, on: str) -> int:
        return sum(1 for one in self.asked if re.search(on, one.line))

    def _runs(self, names: tuple[str, ...], effort: Effort | None) -> Runs:
        store = RecordStore(state=self.state, objects_at=lambda _: LocalObjects())
        source = Source(name="stand-in", where=Where(context="stand-in"), namespace="default")
        patience = Patience(tries=1, read_timeout_s=5.0)
        return Runs(
            sources=(source,),
            store=store,
            names=names,
            local=False,
            effort=effort,
            connect=lambda _: connect_context(self.api.context, here=self.api.here, patience=patience),
        )


@pytest.fixture
def looks(tmp_path: Path) -> Iterator[Looks]:
    with standing_in(tmp_path) as api:
        yield Looks(api, tmp_path)


def steps(told: Told) -> dict[str, int | None]:
    return {name: one[0] for name, one in told.items()}


def until_asked(looks: Looks, on: str, *, since: int) -> bool:
    """Waits for it."""
    end = time.monotonic() + 10.0
    while not any(re.search(on, one.line) for one in looks.api.server.seen[since:]):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def before_the_jobsets_came(looks: Looks, on: str) -> bool:
    """Whether that was asked while the JobSets were kept back."""
    asked: list[bool] = []
    began = len(looks.api.server.seen)
    looks.api.server.fail(r"/jobsets\?", code=0, do=lambda: asked.append(until_asked(looks, on, since=began)))
    looks.look()
    return asked == [True]


def test_the_first_look_asks_nothing_ahead(looks: Looks) -> None:
    looks.run("a")
    looks.says("a", 1, 2)
    assert steps(looks.look()) == {"a": 2}
    assert (looks.count(PODS), looks.count(LOG)) == (1, 1)


@pytest.mark.parametrize("on", [PODS, LOG])
def test_later_ones_ask_before_the_lists_have_come(looks: Looks, on: str) -> None:
    looks.run("a")
    looks.says("a", 1, 2)
    looks.run("b", STARTING)
    looks.look()
    assert before_the_jobsets_came(looks, on)


def test_nothing_is_asked_twice_and_nothing_that_is_told_is_old(looks: Looks) -> None:
    for name in ("a", "b"):
        looks.run(name)
        looks.says(name, 1, 2)
    looks.run("c", STARTING)
    looks.look()
    looks.says("a", 3, 4)
    assert looks.look() == looks.plainly()
    looks.says("b", 3)
    assert steps(looks.look()) == {"a": 4, "b": 3, "c": None}
    assert (looks.count(PODS), looks.count(LOG)) == (1, 2)


def test_a_run_that_is_new_costs_one_list_more(looks: Looks) -> None:
    looks.run("a")
    looks.says("a", 1)
    looks.look()
    looks.run("b")
    looks.says("b", 7)
    assert steps(looks.look()) == {"a": 1, "b": 7}
    assert (looks.count(PODS), looks.count(LOG)) == (2, 2)


def test_one_that_was_submitted_from_here_or_waited_for_its_quota_costs_none(looks: Looks) -> None:
    looks.run("a")
    looks.says("a", 1)
    looks.run("b", QUEUED)
    looks.look()
    looks.now("b", RUNNING)
    looks.says("b", 7)
    looks.run("c")
    looks.says("c", 8)
    where = Where(context="stand-in")
    place = {"target": "xpk", "output": "gs://b/runs", "cluster": where, "namespace": "default"}
    keep(looks.state / "runs", IndexEntry(run_name="c", jobset="c", uid=looks.made["c"]["metadata"]["uid"], **place))
    keep(looks.state / "runs", IndexEntry(run_name="odd", jobset="no, label", uid="u", **place))
    assert steps(looks.look()) == {"a": 1, "b": 7, "c": 8}
    assert (looks.count(PODS), looks.count(LOG)) == (1, 3)
    (pods,) = [one for one in looks.asked if one.path.endswith("/pods")]
    assert "no, label" not in pods.query["labelSelector"]


def test_a_pod_that_took_the_place_of_another_is_the_one_that_is_heard(looks: Looks) -> None:
    looks.run("a")
    looks.says("a", 8, 9)
    looks.look()
    looks.gone("a")
    looks.now("a", {**RUNNING, "restarts": 1})
    looks.says("a", 3, tag="zzzzz", attempt=1)
    assert steps(looks.look()) == {"a": 3}
    looks.now("a", ended("Completed", "AllJobsCompleted"))
    looks.says("a", 4, tag="zzzzz")
    assert steps(looks.look()) == {"a": 4}


@pytest.mark.parametrize("how", ["Completed", "Failed", None])
def test_what_was_said_before_an_end_or_a_restart_is_not_all(looks: Looks, how: str | None) -> None:
    """An end is kept, and nothing of it read again."""
    looks.run("a")
    looks.says("a", 8)
    looks.look()

    def go_on() -> None:
        until_asked(looks, LOG, since=began)
        looks.says("a", 9, 10)
        looks.now("a", ended(how, "x") if how else {**RUNNING, "restarts": 1})

    began = len(looks.api.server.seen)
    looks.api.server.fail(r"/jobsets\?", code=0, do=go_on)
    assert steps(looks.look()) == {"a": 10}
    assert (looks.count(PODS), looks.count(LOG)) == (2, 2)


def test_the_pod_of_an_end_is_the_one_that_ended(looks: Looks) -> None:
    """It tells why: out of memory."""
    looks.run("a")
    looks.says("a", 8)
    looks.look()

    def fall() -> None:
        until_asked(looks, LOG, since=began)
        killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
        pod = looks.api.standin.objects.of("/pods")["default", "a-slice-job-0-0-abcde"]
        pod["status"] = {"phase": "Failed", "containerStatuses": [{"name": "jax-tpu", "state": killed}]}
        looks.now("a", ended("Failed", "x"))

    began = len(looks.api.server.seen)
    looks.api.server.fail(r"/jobsets\?", code=0, do=fall)
    ((_, _, pods, _),) = looks.look().values()
    assert pods is not None
    assert [pod.phase for pod in pods] == ["Failed"]


def test_where_the_pods_may_not_be_read_that_is_said_once(looks: Looks) -> None:
    looks.run("a")
    looks.says("a", 1)
    first = looks.plainly()
    looks.look()
    looks.api.standin.denied.add(("list", "pods"))
    told = looks.look()["a"]
    assert (told[0], [one.what for one in told[3]]) == (None, ["log"])
    looks.api.standin.denied.clear()
    assert looks.look() == first


def test_a_log_that_hangs_holds_nothing_back_for_longer(looks: Looks) -> None:
    for name in ("a", "b"):
        looks.run(name)
        looks.says(name, 1)
    looks.look()
    looks.api.server.fail("a-slice-job-0-0-abcde/log", action="hang-before", times=9)
    told = looks.look(effort=Effort(progress_s=0.5))
    assert steps(told) == {"a": None, "b": 1}
    assert [one.what for one in told["a"][3]] == ["log"]


def test_who_wants_no_progress_asks_for_none(looks: Looks) -> None:
    looks.run("a")
    looks.says("a", 1)
    looks.run("b", QUEUED)
    looks.look()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observe_ahead, "_pods", nothing := Mock())
        assert steps(looks.look(effort=Effort(progress_s=0))) == {"a": None, "b": None}
    nothing.assert_not_called()
    assert (looks.count(PODS), looks.count(LOG)) == (0, 0)


def test_of_one_that_is_named_no_other_is_asked(looks: Looks) -> None:
    for name in ("a", "b"):
        looks.run(name)
        looks.says(name, 1)
    looks.run("c", QUEUED)
    looks.look()
    assert steps(looks.look("a")) == {"a": 1}
    (asked,) = [one for one in looks.asked if one.path.endswith("/log")]
    assert (asked.path.split("/")[-2], asked.query["tailLines"]) == ("a-slice-job-0-0-abcde", "800")
    (pods,) = [one for one in looks.asked if one.path.endswith("/pods")]
    assert "in (a)" in pods.query["labelSelector"]


def test_few_of_many_that_wait_are_asked_about(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe_ahead, "BEGIN_SOON", 2)
    looks.run("a")
    looks.says("a", 1)
    for number in range(5):
        looks.run(f"w{number}", QUEUED)
    looks.look()
    looks.look()
    (pods,) = [one for one in looks.asked if one.path.endswith("/pods")]
    assert sum(f"w{number}" in pods.query["labelSelector"] for number in range(5)) == 2


def waits(looks: Looks, name: str) -> None:
    """For a node."""
    looks.run(name, STARTING)
    looks.there.pod(name, phase="Pending", containerStatuses=[])


@pytest.mark.parametrize("few", [True, False])
def test_of_a_run_that_starts_the_first_pods_are_told_if_they_are_pending(
    looks: Looks, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    """Of many that start all pending pods are listed, without their names."""
    monkeypatch.setattr(observe_ahead, "MOST_STARTING", 2 if few else 1)
    looks.run("a")
    looks.says("a", 1)
    for name in ("b", "c"):
        waits(looks, name)
    for _ in range(2):
        told = looks.look()
        assert {name: one[2] and [pod.phase for pod in one[2]] for name, one in told.items()} == {
            "a": None,
            "b": ["Pending"],
            "c": ["Pending"],
        }
        assert looks.count(PODS) == 2 - few
        assert looks.count("fieldSelector=status.phase=Pending") == 1 - few


def test_two_lists_of_pods_are_the_most_while_few_start(looks: Looks) -> None:
    """Also where something began that nobody here knew of."""
    looks.run("a")
    looks.says("a", 1)
    waits(looks, "b")
    looks.look()
    looks.run("c")
    looks.says("c", 5)
    waits(looks, "d")
    assert looks.look() == looks.plainly()
    assert looks.count(PODS) == 1
    looks.run("e")
    waits(looks, "f")
    looks.look()
    assert looks.count(PODS) == 2


def test_who_names_a_run_that_is_up_does_not_ask_why_others_do_not_start(looks: Looks) -> None:
    looks.run("a", ended("Failed", "x"))
    waits(looks, "b")
    looks.look("a", effort=Effort(progress_s=0))
    time.sleep(0.2)
    assert looks.count(PODS) == 0


@pytest.mark.parametrize(
    ("others", "prints"),
    [
        ([], "one"),
        ([{"deleting": True, "attempt": 1}], "one"),
        ([{"attempt": 1, "created_at": "2026-11-21T09:00:00Z"}], "other"),
        ([{"created_at": "2026-11-21T11:00:00Z"}], "other"),
        ([{"host": 1, "attempt": 2}], "one"),
        ([{"jobset": "b", "attempt": 2}], "one"),
    ],
)
def test_the_one_that_prints_is_the_latest_that_lives(others: list[dict[str, Any]], prints: str) -> None:
    of = {"jobset": "a", "replicated_job": "slice-job", "slice_index": 0, "host": 0, "phase": "Running"}
    one = Pod(name="one", created_at="2026-11-21T10:00:00Z", **of)  # type: ignore[arg-type]
    several = [one, *(Pod(**{"name": "other", "created_at": one.created_at, **of, **changed}) for changed in others)]
    for pods in (several, several[::-1]):
        found = printer_of(jobset("a"), pods)
        assert found is not None
        assert found.name == prints


def test_one_that_is_deleted_prints_where_there_is_no_other() -> None:
    of = {"jobset": "a", "replicated_job": "slice-job", "slice_index": 0, "host": 0, "phase": "Running"}
    going = Pod(name="going", deleting=True, **of)  # type: ignore[arg-type]
    assert printer_of(jobset("a"), [going]) is going
    assert printer_of(jobset("a"), []) is None


def test_so_many_logs_are_read_at_once_and_no_more() -> None:
    held, at_once, most = threading.Event(), [0], [0]
    lock = threading.Lock()

    def said(_: Pod) -> None:
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        held.wait(20.0)
        with lock:
            at_once[0] -= 1

    pods = tuple(
        Pod(name=f"p{n}", jobset="j", replicated_job="r", slice_index=0, host=0, phase="Running")
        for n in range(2 * THREADS)
    )
    heard = hear(pods, said)
    end = time.monotonic() + 20.0
    while most[0] < THREADS and time.monotonic() < end:
        time.sleep(0.01)
    held.set()
    assert [one.result(20.0) for one in heard] == [None] * len(pods)
    assert most == [THREADS]


STATUSES = [RUNNING, STARTING, QUEUED, {**RUNNING, "restarts": 1}, ended("Completed", "x"), ended("Failed", "x")]
CHANGES = st.lists(
    st.tuples(st.sampled_from(["run", "now", "says", "gone", "look"]), st.sampled_from("abcd"), st.integers(0, 5)),
    max_size=20,
)


@settings(max_examples=25, deadline=None)
@given(changes=CHANGES, at_most=st.integers(1, 3))
def test_whatever_happens_it_tells_what_a_first_look_tells(changes: list[tuple[str, str, int]], at_most: int) -> None:
    effort = Effort(at_most=at_most, at_least=at_most)
    with tempfile.TemporaryDirectory() as folder, standing_in(Path(folder)) as api:
        looks = Looks(api, Path(folder))
        for what, name, number in (*changes, ("look", "", 0)):
            if what == "run" and name not in looks.made:
                looks.run(name, STATUSES[number])
            elif what == "now" and name in looks.made:
                looks.now(name, STATUSES[number])
            elif what == "says" and name in looks.made:
                looks.says(name, number + 1)
            elif what == "gone":
                looks.gone(name)
            elif what == "look":
                assert looks.look(effort=effort) == looks.look(effort=effort, cache=f"none-{len(api.server.seen)}")
