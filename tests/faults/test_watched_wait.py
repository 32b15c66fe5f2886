"""`xsft wait` on a real cluster: a watch tells when to look, and whatever becomes of the watch, the answer is right."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_cluster import sent_to
from tests.control_plane.api import Cluster
from tests.fakes.clusters import ClusterApi, reaching
from tests.faults.real import RealWorld
from tests.submissions import NAME
from tests.until import until
from xsft.verbs.cli import main

pytestmark = pytest.mark.cluster
RUN = f"{NAME}-mcjax"
WATCH = r"^GET .*/jobsets\?.*watch=true"
LIST = r"^GET .*/jobsets\?labelSelector|^GET .*/jobsets\?$"
POLL_S = 2.2
"""More than the shortest time between two looks, else nothing is watched."""
LONG_S = 300.0
"""What a test may take on a busy machine."""
FAR_S = 600.0
"""A poll that no test waits for: what is seen within LONG_S was not seen by it."""


@pytest.fixture
def api(real_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterApi]:
    with reaching(real_cluster, tmp_path) as made:
        monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig))
        monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.chdir(tmp_path)
        made.connect().create_jobset(sent_to(made))
        real_cluster.wait(lambda: settled(made), what="its controllers to say what they say of a new one")
        made.server.seen.clear()
        yield made


def settled(api: ClusterApi) -> bool:
    """Behind the gate no controller changes it any more."""
    conditions = api.world.jobsets()[RUN].get("status", {}).get("conditions", ())
    return any(one["type"] == "Suspended" and one["status"] == "True" for one in conditions)


@dataclass(frozen=True, kw_only=True)
class Waited:
    status: int
    outcome: str
    looks: int
    """Since it ended."""


Wait = Callable[..., Waited]


@pytest.fixture
def wait(api: ClusterApi, capsys: pytest.CaptureFixture[str]) -> Wait:
    """`xsft wait`, and what happens once it watches (or, where it cannot, has looked)."""

    def waited(*, poll: str, then: Callable[[], object], once: str = WATCH, count: int = 1) -> Waited:
        before: list[int] = []

        def end() -> None:
            then()
            before.append(len(api.server.asked(LIST)))

        with meanwhile(lambda: len(api.server.asked(once)) >= count, end):
            where = ("--context", api.context, "--namespace", api.namespace)
            status = main(("wait", RUN, "--json", "--poll", poll, "--timeout", f"{LONG_S:g}s", *where))
        found = json.loads(capsys.readouterr().out)
        return Waited(status=status, outcome=found["outcome"], looks=len(api.server.asked(LIST)) - before[0])

    return waited


@contextmanager
def meanwhile(ready: Callable[[], bool], then: Callable[[], object]) -> Iterator[None]:
    def work() -> None:
        until(ready, within_s=LONG_S)
        time.sleep(0.3)
        then()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def ended(api: ClusterApi, how: str = "Failed") -> Callable[[], object]:
    world = api.world
    assert isinstance(world, RealWorld)
    return lambda: world.end(RUN, how)


def test_wait_sees_the_end_of_a_run_long_before_its_next_poll(api: ClusterApi, wait: Wait) -> None:
    found = wait(poll=f"{FAR_S:g}s", then=ended(api))
    assert (found.status, found.outcome) == (6, "ended")
    (watched,) = api.server.asked(WATCH)
    assert watched.query["fieldSelector"] == f"metadata.name={RUN}"
    assert watched.query["resourceVersion"] == "0"


def test_wait_exits_8_soon_after_the_run_is_deleted(api: ClusterApi, wait: Wait) -> None:
    """Three whole answers without it, of which only the first was due."""
    found = wait(poll=f"{POLL_S}s", then=lambda: api.world.delete(RUN))
    assert (found.status, found.outcome) == (8, "lost")


def test_an_irrelevant_change_of_a_jobset_starts_no_poll(api: ClusterApi, wait: Wait) -> None:
    def change_then_end() -> None:
        looks.append(len(api.server.asked(LIST)))
        api.world.relabel(RUN, {"somebody": "elses"})
        time.sleep(3)
        looks.append(len(api.server.asked(LIST)))
        ended(api)()

    looks: list[int] = []
    found = wait(poll=f"{FAR_S:g}s", then=change_then_end)
    assert found.outcome == "ended"
    assert looks[0] == looks[1]


FAULTS: tuple[dict[str, Any], ...] = (
    {"action": "stream-gone", "after_lines": 1},
    {"action": "stream-end", "after_lines": 1},
    {"action": "stream-cut", "after_lines": 1},
    {"action": "stream-end", "after_bytes": 40},  # in the middle of an object
    {"action": "reset-before"},
    {"action": "hang-before"},
    {"code": 403, "message": 'User "u" cannot watch resource "jobsets"'},
    {"code": 429, "retry_after": "3600"},
)


def test_wait_polls_as_usual_when_watches_fail(api: ClusterApi, wait: Wait) -> None:
    """Each watch fails in another way, the last ones by 410. Neither is the end missed, nor is the server asked more
    often than before; the receipt at the end asks once."""
    for fault in FAULTS:
        api.server.fail(WATCH, **fault)
    api.server.fail(WATCH, times=99, code=410)
    began = time.monotonic()
    found = wait(poll=f"{POLL_S}s", then=ended(api), count=len(FAULTS) + 1)
    passed = time.monotonic() - began
    assert (found.status, found.outcome) == (6, "ended")
    assert found.looks <= 2
    assert len(api.server.asked(WATCH)) <= len(api.server.asked(LIST)) <= 2.5 + passed / POLL_S
