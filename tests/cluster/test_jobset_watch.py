"""A watch ends a pause early, and does nothing else (with a real API server: tests/faults/test_watched_wait.py)."""

from __future__ import annotations

import copy
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.kubeapi import CONTEXT, write_kubeconfig
from tests.fakes.kuberuns import golden
from tests.faults.answer import Answer, gone, status
from tests.faults.fault import Seen
from tests.faults.server import Front, served
from xsft.base.errors import Unreachable
from xsft.cluster import jobset_watch
from xsft.cluster.access import AccessSources
from xsft.cluster.api import Patience
from xsft.cluster.cluster import Cluster, connect
from xsft.cluster.jobset_fields import jobset_of
from xsft.cluster.jobset_watch import pause_until_changed
from xsft.records.run_cluster import ClusterAddress

Json = dict[str, Any]
WHOLE_S = 1.0
"""A pause that nothing shortens; the least that the API server is asked to watch."""
LONG_S = 60.0
"""A pause that a change ends."""


def as_it_is(**status: Any) -> Json:
    body = copy.deepcopy(golden("mcjax"))
    body["metadata"] |= {"uid": "u-1", "namespace": "default", "creationTimestamp": "2026-11-21T10:00:00Z"}
    return {**body, "status": {"restarts": 0, **status}}


ENDED = as_it_is(terminalState="Completed", conditions=[{"type": "Completed", "status": "True"}])


def line(kind: str, content: Json) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode() + b"\n"


SAME = line("ADDED", as_it_is())
TWO = {"name": "slice-job", "active": 2}
ALL_UP = as_it_is(replicatedJobsStatus=[{**TWO, "ready": 2}])
ONE_UP = as_it_is(replicatedJobsStatus=[{**TWO, "ready": 1}])
OTHERS_LABEL = as_it_is()
OTHERS_LABEL["metadata"]["labels"]["somebody"] = "elses"


@contextmanager
def watched(folder: Path, answer: Callable[[Seen, threading.Event], Answer]) -> Iterator[tuple[Front, Cluster]]:
    never = threading.Event()
    with served(Front(behind=lambda one: answer(one, never))) as front:
        config = write_kubeconfig(folder / "config", server=front.url, token="t")
        here = AccessSources(env={**os.environ, "KUBECONFIG": str(config)}, home=folder)
        yield (
            front,
            connect(
                ClusterAddress(context=CONTEXT), here=here, patience=Patience(connect_timeout_s=1, read_timeout_s=1)
            ),
        )
        never.set()


def says(*lines: bytes, one: Seen, never: threading.Event) -> Answer:
    """And nothing more, the stream staying open as long as was asked for."""

    def stream() -> Iterator[bytes]:
        yield from lines
        never.wait(float(one.query["timeoutSeconds"]))

    return Answer(200, None, stream=stream())


def paused_s(cluster: Cluster, *, of_s: float) -> float:
    began = time.monotonic()
    pause_until_changed(lambda: cluster, jobset_of(as_it_is()), seconds=of_s, soonest_s=0.1)
    return time.monotonic() - began


@pytest.mark.parametrize(
    "lines",
    [
        (SAME, line("MODIFIED", ENDED)),
        (line("ADDED", ENDED),),
        (SAME, line("MODIFIED", ALL_UP)),
        (SAME, line("DELETED", as_it_is())),
    ],
    ids=["JobSet ended", "JobSet ended before the watch", "all pods ready", "JobSet deleted"],
)
def test_a_change_of_the_jobset_ends_the_pause(tmp_path: Path, lines: tuple[bytes, ...]) -> None:
    with watched(tmp_path, lambda one, never: says(*lines, one=one, never=never)) as (front, cluster):
        assert paused_s(cluster, of_s=LONG_S) < LONG_S / 2
    (asked,) = front.seen
    assert asked.query | {"timeoutSeconds": ""} == {
        "watch": "true",
        "fieldSelector": "metadata.name=deepseek-ultrachat-mcjax",
        "resourceVersion": "0",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "",
    }


NOTHING: dict[str, Callable[[Seen, threading.Event], Answer]] = {
    "nothing happens": lambda one, never: says(SAME, one=one, never=never),
    "a bookmark": lambda one, never: says(SAME, line("BOOKMARK", {}), one=one, never=never),
    "one more is up": lambda one, never: says(SAME, line("MODIFIED", ONE_UP), one=one, never=never),
    "what matters not": lambda one, never: says(SAME, line("MODIFIED", OTHERS_LABEL), one=one, never=never),
    "410 Gone": lambda one, never: says(SAME, gone(), one=one, never=never),
    "no event": lambda one, never: says(b'{"items": []}\n', one=one, never=never),
    "no JSON": lambda one, never: says(b"<html>\n", one=one, never=never),
    "it ends": lambda _one, _never: Answer(200, None, stream=iter((SAME,))),
    "it may not be": lambda _one, _never: status(403, "Forbidden", 'User "u" cannot watch resource "jobsets"'),
    "it is too busy": lambda _one, _never: status(429, "TooManyRequests", "later", retry_after="3600"),
}


@pytest.mark.loopback
def test_any_other_event_keeps_the_pause(tmp_path: Path) -> None:
    """The cases run concurrently, because each waits for its whole pause."""

    def keeps(case: str) -> bool:
        folder = tmp_path / case.replace(" ", "-")
        folder.mkdir()
        with watched(folder, NOTHING[case]) as (front, cluster):
            kept = WHOLE_S <= paused_s(cluster, of_s=WHOLE_S) < LONG_S
        return kept and len(front.seen) == 1

    with ThreadPoolExecutor(len(NOTHING)) as threads:
        found = dict(zip(NOTHING, threads.map(keeps, NOTHING), strict=True))
    assert found == dict.fromkeys(NOTHING, True)


@pytest.mark.loopback
def test_an_unreachable_cluster_keeps_the_pause() -> None:
    def fails() -> Cluster:
        raise Unreachable("connection refused")

    began = time.monotonic()
    pause_until_changed(fails, jobset_of(as_it_is()), seconds=0.5, soonest_s=0.1)
    assert time.monotonic() - began >= 0.5


def test_a_short_pause_starts_no_watch() -> None:
    def never() -> Cluster:
        raise AssertionError

    pause_until_changed(never, jobset_of(as_it_is()), seconds=0.01)


junk = st.recursive(
    st.none() | st.integers() | st.text(max_size=5), lambda of: st.lists(of) | st.dictionaries(st.text(), of)
)
events = st.fixed_dictionaries(
    {"type": st.sampled_from(["ADDED", "MODIFIED", "BOOKMARK", "ERROR", "OTHER"]) | junk, "object": junk}
)


@given(st.binary() | (events | junk).map(lambda found: json.dumps(found).encode()))
def test_a_watch_accepts_any_line(said: bytes) -> None:
    tells = partial(jobset_watch._tells, jobset=jobset_of(as_it_is()))
    assert tells(said) in (True, False, None)
