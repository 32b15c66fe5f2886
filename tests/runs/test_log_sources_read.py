"""Logs of a run, from the stand-in: each line once, whatever happens to pods, containers and connections."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.kubelogs import PodLogs, printer, role_of
from tests.fakes.kuberuns import Runs, ended
from tests.until import until
from xsft.base.errors import Unreachable
from xsft.cluster.api import Patience
from xsft.cluster.cluster import connect
from xsft.cluster.jobset_fields import parse_jobset
from xsft.cluster.objects import typed
from xsft.cluster.observation import RunObject
from xsft.cluster.pod_fields import POD
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.log_roles import ProcessRole
from xsft.runs.log_sources import STREAM_THREAD, _merge_lines, _queue_lines, follow_logs, read_logs
from xsft.runs.logstream import LogFollower, LogLine, Mark, Over, Pace, YieldedLines
from xsft.trainer.progress import LoggedLine

pytestmark = pytest.mark.loopback

PACE = Pace(poll_s=0.02, longest_wait_s=0.05, silence_s=60.0, first_s=0.3, look_s=0.05)
FIRST = "gemma-slice-job-0-0-abcde"
SOON_S = 20.0


class World:
    """One run on the stand-in."""

    def __init__(self, api: ClusterApi, *, mode: str = "mcjax") -> None:
        self.api = api
        self.runs = Runs(api.standin.objects)
        self.json = self.runs.admitted("gemma", mode=mode)
        patience = Patience(tries=1, read_timeout_s=60.0)
        self.cluster = connect(ClusterAddress(context=api.context), here=api.here, patience=patience)
        self.listeners: list[Reporter] = []

    def close(self) -> None:
        """End the streams of all followers."""
        self.end()
        for pod in self.api.standin.objects.of("/pods").values():
            pod["status"]["phase"] = "Succeeded"
        for name, _ in list(self.logs.logs):
            self.logs.end(name)
        for silent_listener in self.listeners:
            silent_listener.rest()

    def listen(self, *roles: ProcessRole, **how: Any) -> Reporter:
        self.listeners.append(Reporter(self.follow(*roles, **how)))
        return self.listeners[-1]

    @property
    def logs(self) -> PodLogs:
        return self.api.standin.logs

    @property
    def jobset(self) -> RunObject:
        return parse_jobset(self.json)

    def pod(self, **how: Any) -> dict[str, Any]:
        return self.runs.pod("gemma", **how)

    def end(self, how: str = "Completed") -> None:
        self.json["status"] = ended(how, "AllJobsCompleted")

    def read(self, *roles: ProcessRole, **how: Any) -> list[str]:
        log_lines = read_logs(self.cluster, jobset=self.jobset, roles=roles or (printer(self.jobset),), **how)
        return [line.text for line in log_lines]

    def follow(self, *roles: ProcessRole, **how: Any) -> Iterator[LogLine]:
        followed_roles = roles or (printer(self.jobset),)
        return follow_logs(self.cluster, jobset=self.jobset, roles=followed_roles, **{"pace": PACE, **how})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with standing_in(tmp_path) as api:
        new_world = World(api)
        yield new_world
        new_world.close()


class Reporter:
    """A follower that takes each line as it comes."""

    def __init__(self, lines: Iterator[LogLine]) -> None:
        self.heard: list[LogLine] = []
        self.given = 0
        self.failed: list[Exception] = []
        self._lines = lines
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        try:
            for line in self._lines:
                self.heard.append(line)
        except Unreachable as failed:
            self.failed.append(failed)

    def take(self, count: int) -> list[str]:
        """The next so many."""
        until(lambda: len(self.heard) >= self.given + count)
        self.given += count
        return [line.text for line in self.heard[self.given - count : self.given]]

    def rest(self) -> list[str]:
        """Return all lines until the end."""
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()
        return [line.text for line in self.heard[self.given :]]


@pytest.mark.early
def test_read_logs_reads_the_pod_that_prints_steps(world: World) -> None:
    world.pod()
    world.pod(host=1)
    world.logs.say(FIRST, "one", "two", "three")
    world.logs.say("gemma-slice-job-0-1-abcde", "another")
    assert world.read() == ["one", "two", "three"]
    assert world.read(tail=2) == ["two", "three"]
    (request,) = world.api.server.asked("/log.*tailLines")
    assert request.query["container"] == "jax-tpu"
    assert len(world.api.server.asked(r"slice-job-0-1-abcde/log")) == 0


def test_read_logs_reads_the_head_under_pathways(tmp_path: Path) -> None:
    with standing_in(tmp_path) as api:
        world = World(api, mode="pathways")
        head = world.pod(job="pathways-head")
        world.pod(job="worker")
        world.logs.say(head["metadata"]["name"], "a step")
        assert world.read() == ["a step"]


def test_logs_are_merged_by_their_times(world: World) -> None:
    roles = []
    for host in (0, 1):
        pod = world.pod(host=host)
        roles.append(role_of(typed(pod, POD)))
        for second in (1, 2, 3):
            world.logs.say(pod["metadata"]["name"], f"host {host} at {second}", second=second)
    assert world.read(*roles) == [f"host {host} at {second}" for second in (1, 2, 3) for host in (0, 1)]
    assert world.read(*roles, since="2026-11-21T10:00:03Z") == ["host 0 at 3", "host 1 at 3"]


def test_a_process_without_a_log_has_no_lines(world: World) -> None:
    assert world.read() == []
    world.pod(phase="Pending")
    assert world.read() == []


def test_many_processes_without_a_log_have_no_lines(world: World) -> None:
    roles = [ProcessRole(replicated_job="slice-job", slice_index=0, host=host) for host in range(64)]
    assert world.read(*roles) == []


def test_following_ends_when_the_run_ends(world: World) -> None:
    pod = world.pod()
    world.logs.say(FIRST, "one", "two")
    lines = world.listen()
    assert lines.take(2) == ["one", "two"]
    world.logs.say(FIRST, "three", second=5)
    assert lines.take(1) == ["three"]
    world.logs.say(FIRST, "last", second=6, end=True)
    pod["status"]["phase"] = "Succeeded"
    world.end()
    assert lines.rest() == ["last"]


def follower(world: World) -> LogFollower:
    over, stop = Over(world.cluster, world.jobset, pace=PACE, now=time.monotonic), threading.Event()
    return LogFollower(
        world.cluster, world.jobset, printer(world.jobset), pace=PACE, over=over, stop=stop, say=lambda _: None
    )


@pytest.mark.parametrize(
    ("before", "tail", "snapshot"),
    [
        ((), None, []),
        (("one", "two"), None, ["one", "two"]),
        (("one", "two"), 1, ["two"]),
        (("one", "two"), 0, []),
        ((), 0, []),
        (("one", "loss\rstep"), None, ["one", "loss\rstep"]),
    ],
)
@pytest.mark.parametrize("second", [1, 2])
def test_lines_between_snapshot_and_stream_are_printed_once(
    world: World, before: tuple[str, ...], tail: int | None, snapshot: list[str], second: int
) -> None:
    world.pod()
    world.logs.say(FIRST, *before, second=1)
    log_follower = follower(world)
    assert [line.text for line in log_follower.begin(since=None, tail=tail)] == snapshot
    world.logs.say(FIRST, "between", "between", second=second)
    world.logs.say(FIRST, "after", second=3, end=True)
    assert [line.text for line in itertools.islice(log_follower.lines(), 3)] == ["between", "between", "after"]


@pytest.mark.parametrize("there", [True, False])
def test_since_also_applies_to_a_pod_that_starts_later(world: World, *, there: bool) -> None:
    """With `--since`, the first pod may have no log yet, or not exist yet."""
    if there:
        world.pod()
    log_follower = follower(world)
    assert list(log_follower.begin(since="2026-11-21T10:00:05Z", tail=None)) == []
    world.pod()
    world.logs.say(FIRST, "old", second=1)
    world.logs.say(FIRST, "new", second=6, end=True)
    assert [line.text for line in itertools.islice(log_follower.lines(), 1)] == ["new"]


def test_a_tail_is_not_repeated_for_its_last_second(world: World) -> None:
    """A log that is opened again returns all lines of its last second: the kubelet has no finer resolution."""
    world.pod()
    world.logs.say(FIRST, "one", "two", "three", second=1)
    lines = world.listen(tail=1)
    assert lines.take(1) == ["three"]
    world.logs.say(FIRST, "four", second=1)
    assert lines.take(1) == ["four"]


def test_an_ended_run_is_followed_to_its_last_line(world: World) -> None:
    world.pod(phase="Failed")
    world.logs.say(FIRST, "one", end=True)
    world.end("Failed")
    assert [line.text for line in world.follow()] == ["one"]


def test_following_ends_when_the_run_is_deleted(world: World) -> None:
    pod = world.pod()
    world.logs.say(FIRST, "one")
    lines = world.listen()
    assert lines.take(1) == ["one"]
    world.api.world.delete("gemma")
    del world.api.standin.objects.of("/pods")["default", pod["metadata"]["name"]]
    world.logs.gone(FIRST)
    assert lines.rest() == []


@pytest.mark.parametrize("cuts", [1, 3])
def test_a_broken_stream_continues_after_its_last_line(world: World, cuts: int) -> None:
    world.pod()
    world.logs.say(FIRST, "one", "two", "two", second=1)
    lines = world.listen()
    assert lines.take(3) == ["one", "two", "two"]
    for i in range(cuts):
        until(lambda n=i: world.logs.followed(FIRST) > n)  # type: ignore[misc]
        world.logs.cut(FIRST)
        world.logs.say(FIRST, f"after cut {i}", second=1)
        assert lines.take(1) == [f"after cut {i}"]


@pytest.mark.parametrize("fault", [{"code": 500}, {"code": 503}, {"code": 429}, {"action": "cut-before"}])
def test_server_errors_while_following_are_retried(world: World, fault: dict[str, Any]) -> None:
    world.pod()
    world.logs.say(FIRST, "one")
    heard: list[str] = []
    lines = world.listen(trouble=heard.append)
    assert lines.take(1) == ["one"]
    until(lambda: world.logs.followed(FIRST))
    for path in ("/log.*follow=true", "/jobsets/", "/pods\\?"):
        world.api.server.fail(path, times=2, **fault)
    world.logs.cut(FIRST)
    until(lambda: heard)
    world.logs.say(FIRST, "two", second=2)
    assert lines.take(1) == ["two"]


@pytest.mark.parametrize("where", ["/pods", "/log"])
@pytest.mark.parametrize("processes", [1, 2])
def test_server_errors_at_the_start_are_retried(world: World, where: str, processes: int) -> None:
    roles = [role_of(typed(world.pod(host=host), POD)) for host in range(processes)]
    for pod in world.api.standin.objects.of("/pods").values():
        world.logs.say(pod["metadata"]["name"], "one", "two")
    world.api.server.fail(where, code=503, times=2)
    troubles: list[str] = []
    listener = world.listen(*roles, trouble=troubles.append)
    assert sorted(listener.take(2 * processes)) == ["one"] * processes + ["two"] * processes
    assert troubles


def test_a_refused_login_at_the_start_ends_following(world: World) -> None:
    world.pod()
    world.api.server.fail("/pods", code=401, times=9)
    with pytest.raises(Unreachable):
        list(world.follow())


def test_a_forbidden_log_ends_following(world: World) -> None:
    world.pod()
    world.logs.say(FIRST, "one")
    lines = world.listen()
    assert lines.take(1) == ["one"]
    until(lambda: world.logs.followed(FIRST))
    words = 'pods "x" is forbidden: User "u" cannot get resource "pods/log" in API group ""'
    world.api.server.fail("/log.*follow=true", code=403, message=words, times=99)
    world.logs.cut(FIRST)
    assert lines.rest() == []
    (failed,) = lines.failed
    assert "You may not get pods/log" in str(failed)


def test_following_continues_after_a_container_restart(world: World) -> None:
    pod = world.pod()
    world.logs.say(FIRST, "one", second=1)
    lines = world.listen()
    assert lines.take(1) == ["one"]
    until(lambda: world.logs.followed(FIRST))
    world.logs.say(FIRST, "said while it fell", second=2)
    pod["status"]["containerStatuses"][0]["restartCount"] = 1
    world.logs.replace(FIRST)
    assert lines.take(1) == ["said while it fell"]
    world.logs.say(FIRST, "anew", second=9)
    assert lines.take(1) == ["anew"]


def test_lines_printed_before_a_reconnect_are_read_after_a_restart(world: World) -> None:
    pod = world.pod()
    world.logs.say(FIRST, "one", second=1)
    over, stop = Over(world.cluster, world.jobset, pace=PACE, now=time.monotonic), threading.Event()
    follower = LogFollower(
        world.cluster,
        world.jobset,
        printer(world.jobset),
        pace=PACE,
        over=over,
        stop=stop,
        say=lambda _: None,
    )
    assert [line.text for line in follower.begin(since=None, tail=None)] == ["one"]
    world.logs.say(FIRST, "last words", second=2)
    pod["status"]["containerStatuses"][0]["restartCount"] = 1
    world.logs.replace(FIRST)
    world.logs.say(FIRST, "anew", second=9)
    world.logs.end(FIRST)
    giving_up = threading.Timer(SOON_S, stop.set)
    giving_up.start()
    first, mark, second = itertools.islice(follower.lines(), 3)
    assert (first.text, second.text) == ("last words", "anew")
    assert isinstance(mark, Mark)
    assert "its container was restarted" in mark.text
    giving_up.cancel()


def test_following_ends_if_another_jobset_has_the_name(world: World) -> None:
    world.pod()
    world.logs.say(FIRST, "one")
    lines = world.listen()
    assert lines.take(1) == ["one"]
    world.json["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    world.logs.gone(FIRST)
    assert lines.rest() == []
    assert world.json["status"].get("terminalState") is None


def test_following_continues_with_a_replaced_pod(world: World) -> None:
    """After a restart of the JobSet, other pods have the same roles, and the old ones are gone with their logs."""
    pod = world.pod()
    world.logs.say(FIRST, "one", second=1)
    lines = world.listen()
    assert lines.take(1) == ["one"]
    del world.api.standin.objects.of("/pods")["default", pod["metadata"]["name"]]
    world.logs.gone(FIRST)
    world.pod(tag="zzzzz", attempt=1)
    world.logs.say("gemma-slice-job-0-0-zzzzz", "one", "two", second=1)
    assert lines.take(2) == ["one", "two"]
    assert {line.attempt for line in lines.heard[1:]} == {1}


def test_a_stream_left_open_does_not_hide_the_next_process(world: World) -> None:
    """A node that is gone does not close its streams; the pods are read while a stream is silent."""
    old = world.pod()
    world.logs.say(FIRST, "one", second=1)
    marks: list[str] = []
    lines = world.listen(trouble=marks.append)
    assert lines.take(1) == ["one"]
    until(lambda: world.logs.followed(FIRST))
    old["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:05Z"
    world.pod(tag="zzzzz", attempt=1)
    world.logs.say("gemma-slice-job-0-0-zzzzz", "anew", second=9)
    assert lines.take(1) == ["anew"]
    (mark,) = marks
    assert mark == "-- gemma: restart 1 of 3; the lines below are from the new processes --"


@pytest.mark.parametrize("ending", [False, True])
def test_following_a_log_without_lines_ends_with_its_process(world: World, ending: bool) -> None:
    """A kubelet sends no headers before the first line, so there is no stream to interrupt yet."""
    old = world.pod()
    complaints: list[str] = []
    world.api.server.fail(f"{FIRST}/log.*follow=true", action="hang-before", times=99)
    lines = world.listen(trouble=complaints.append)
    until(lambda: world.api.server.asked("follow=true"))
    if ending:
        world.logs.say(FIRST, "last", end=True)
        old["status"]["phase"] = "Failed"
        world.end("Failed")
        assert lines.rest() == ["last"]
    else:
        old["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:05Z"
        world.pod(tag="zzzzz", attempt=1)
        world.logs.say("gemma-slice-job-0-0-zzzzz", "anew", second=9)
        assert lines.take(1) == ["anew"]
    assert [text for text in complaints if "restart 1" not in text] == []


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({"tag": "zzzzz", "attempt": 1}, "-- gemma: restart 1 of 3; the lines below are from the new processes --"),
        ({"tag": "zzzzz"}, f"-- {FIRST} was replaced; the lines below are from gemma-slice-job-0-0-zzzzz --"),
    ],
)
def test_a_mark_names_the_restart_or_the_new_pod(world: World, after: dict[str, Any], message: str) -> None:
    old = world.pod()
    world.logs.say(FIRST, "one", second=1)
    marks: list[str] = []
    lines = world.listen(trouble=marks.append)
    assert lines.take(1) == ["one"]
    old["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:05Z"
    pod = world.pod(**after)["metadata"]["name"]
    world.logs.say(pod, "anew", second=9)
    assert lines.take(1) == ["anew"]
    assert marks == [message]


def test_a_restart_is_marked_once_between_the_lines_before_and_after(world: World) -> None:
    heard: list[str] = []
    pods = [world.pod(host=host) for host in (0, 1)]
    for host in (0, 1):
        world.logs.say(f"gemma-slice-job-0-{host}-abcde", f"before {host}", second=1)
    lines = world.follow(*(role_of(typed(pod, POD)) for pod in pods), trouble=heard.append)
    heard += [next(lines).text for _ in pods]
    for host, pod in enumerate(pods):
        pod["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:05Z"
        world.logs.say(f"gemma-slice-job-0-{host}-abcde", f"last {host}", second=2)
        world.pod(host=host, tag="zzzzz", attempt=1)
        world.logs.say(f"gemma-slice-job-0-{host}-zzzzz", f"after {host}", second=9)
    heard += [next(lines).text for _ in range(4)]
    lines.close()  # type: ignore[attr-defined]
    (mark,) = (i for i, text in enumerate(heard) if "restart 1" in text)
    assert {text for text in heard[:mark] if "before" in text} == {"before 0", "before 1"}
    assert {text for text in heard if "last" in text} == {"last 0", "last 1"}
    assert not [text for text in heard[:mark] if "after" in text]


@pytest.mark.parametrize("ending", [False, True])
def test_an_unreachable_node_does_not_delay_the_next_process(world: World, ending: bool) -> None:
    """Its kubelet does not answer, so the last lines of its processes are lost."""
    old = world.pod()
    world.logs.say(FIRST, "one", second=1)
    complaints: list[str] = []
    lines = world.listen(trouble=complaints.append)
    assert lines.take(1) == ["one"]
    until(lambda: world.logs.followed(FIRST))
    world.api.server.fail(f"{FIRST}/log", code=500, times=99)
    if ending:
        world.end("Failed")
        old["status"]["phase"] = "Failed"
        assert lines.rest() == []
    else:
        old["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:05Z"
        world.pod(tag="zzzzz", attempt=1)
        world.logs.say("gemma-slice-job-0-0-zzzzz", "anew", second=9)
        assert lines.take(1) == ["anew"]
    assert [text for text in complaints if "last lines of" in text]


def test_a_long_log_is_streamed_completely(world: World) -> None:
    """An earlier version cut the log after 16 MiB."""
    world.pod()
    line = "x" * 60_000
    world.logs.say(FIRST, *[line] * 300, "last")
    heard = 0
    for heard, one in enumerate(read_logs(world.cluster, jobset=world.jobset, roles=(printer(world.jobset),)), start=1):
        assert one.text == (line if heard < 301 else "last")
    assert heard == 301
    (request,) = world.api.server.asked("/log")
    assert "limitBytes" not in request.query


def test_long_logs_of_several_hosts_are_merged_while_streaming(world: World) -> None:
    """No log is held in memory completely."""
    roles = []
    for host in (0, 1):
        pod = world.pod(host=host)
        roles.append(role_of(typed(pod, POD)))
        for second in range(20):
            world.logs.say(
                pod["metadata"]["name"], *(f"{second} {host} {'x' * 9000}" for _ in range(20)), second=second
            )
    lines = read_logs(world.cluster, jobset=world.jobset, roles=roles)
    first = next(lines)
    assert first.text.startswith("0 0 ")
    texts = [line.text[:4].strip() for line in lines]
    assert len(texts) == 799
    assert [int(text.split()[0]) for text in texts] == sorted(int(text.split()[0]) for text in texts)


def test_reading_a_broken_log_continues_after_its_last_line(tmp_path: Path) -> None:
    with standing_in(tmp_path) as api:
        world = World(api)
        world.cluster = connect(
            ClusterAddress(context=api.context),
            here=api.here,
            patience=Patience(tries=3, first_wait_s=0, read_timeout_s=60.0),
        )
        world.pod()
        world.logs.say(FIRST, *(f"line {i}" for i in range(1000)))
        world.api.server.fail(f"{FIRST}/log", action="short")
        assert world.read() == [f"line {i}" for i in range(1000)]
        assert len(api.server.asked(f"{FIRST}/log")) == 2


def test_following_waits_for_a_pod_that_starts_later(world: World) -> None:
    lines = world.listen()
    threading.Timer(0.1, lambda: (world.logs.say(FIRST, "at last"), world.pod())).start()
    assert lines.take(1) == ["at last"]


def test_closing_the_iterator_leaves_no_stream_open(world: World) -> None:
    for host in (0, 1):
        world.pod(host=host)
        world.logs.say(f"gemma-slice-job-0-{host}-abcde", "one")
    roles = [ProcessRole(replicated_job="slice-job", slice_index=0, host=host) for host in (0, 1)]
    lines = world.follow(*roles)
    assert [next(lines).text for _ in roles] == ["one", "one"]
    threading.Timer(0.1, lambda: world.logs.say(FIRST, "two", second=2)).start()
    assert next(lines).text == "two"
    threads = [thread for thread in threading.enumerate() if thread.name == STREAM_THREAD]
    assert len(threads) == 2
    began = time.monotonic()
    lines.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < SOON_S
    for thread in threads:
        thread.join(SOON_S)
    assert not any(thread.is_alive() for thread in threads)


LINES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("ab")), max_size=12)


@given(LINES, st.lists(st.integers(0, 12), max_size=4))
def test_each_line_is_given_once_wherever_a_stream_breaks(lines: list[tuple[int, str]], breaks: list[int]) -> None:
    """Each time a log is opened again, the server returns all lines from the requested second."""
    log = [
        LoggedLine(text=text, at=f"2026-11-21T10:00:{second:02}.5Z")
        for second, text in sorted(lines, key=lambda x: x[0])
    ]
    state, lines_yielded = YieldedLines(), list[LoggedLine]()
    for stop in [*breaks, len(log)]:
        since = (state.since or "")[:19]
        repeated = [line for line in log if line.at[:19] >= since]
        new = state.new(iter(repeated))
        for _ in range(stop):
            line = next(new, None)
            if line is None:
                break
            lines_yielded.append(line)
        new.close()  # type: ignore[attr-defined]
    lines_yielded.extend(state.new(iter([line for line in log if line.at[:19] >= (state.since or "")[:19]])))
    assert lines_yielded == log


def test_an_error_in_one_stream_is_raised_for_all() -> None:
    class Broken:
        def lines(self) -> Iterator[LogLine]:
            raise KeyError("wrong")

    lines: queue.Queue[LogLine | Mark | Exception | None] = queue.Queue()
    _queue_lines(cast("LogFollower", Broken()), lines, threading.Event())
    with pytest.raises(KeyError, match="wrong"):
        list(_merge_lines(lines, streams=1, mark=lambda _: None))
