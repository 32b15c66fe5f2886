"""Outages of a real cluster during a submission: its servers stop and return, objects vanish, submitters die.

Whatever came of a call, at most one run lives, and the next call tells the truth.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_cluster import CREATE
from tests.control_plane.api import Cluster
from tests.control_plane.rest import MERGE
from tests.fakes.clusters import ClusterApi, reaching
from tests.fakes.gcs import Bucket
from tests.faults.real import JOBSETS, RealWorld
from tests.launch.test_submission import answered, process, saves
from tests.replacing import replace
from tests.submissions import NAME, STEPS, planned, submitter
from tests.until import until
from xsft.base.errors import Refused, Unreachable, XsftError
from xsft.cluster.api import Patience
from xsft.cluster.cluster import Cluster as Client
from xsft.cluster.cluster import connect
from xsft.launch.submission import Submission
from xsft.records.run_cluster import ClusterAddress

pytestmark = pytest.mark.cluster
LIST = r"^GET .*/jobsets\?labelSelector"
READ = rf"^GET .*/jobsets/{NAME}\?"
Submits = Callable[..., Submission]


@pytest.fixture
def api(real_cluster: Cluster, tmp_path: Path) -> Iterator[ClusterApi]:
    with reaching(real_cluster, tmp_path) as cluster_apis:
        yield cluster_apis


@pytest.fixture
def world(api: ClusterApi) -> RealWorld:
    assert isinstance(api.world, RealWorld)
    return api.world


@pytest.fixture
def submit(api: ClusterApi, bucket: Bucket, tmp_path: Path) -> Submits:
    def send(changes: dict[str, Any] | None = None, *, cluster: Client | None = None) -> Submission:
        new_submitter = submitter(api, bucket_url=bucket.url, state=tmp_path / "state", changes=changes)
        ready = replace(new_submitter, cluster=cluster) if cluster else new_submitter
        return ready.submit(planned(changes, namespace=api.namespace))

    return send


def tried(submit: Callable[[], Submission]) -> Submission | XsftError:
    try:
        return submit()
    except XsftError as failed:
        return failed


def uids(api: ClusterApi) -> list[str]:
    return [jobset["metadata"]["uid"] for jobset in api.world.jobsets().values()]


# ---- servers go and come


@pytest.mark.parametrize(("on", "when"), [(CREATE, "do"), (CREATE, "then")], ids=["before create", "after create"])
def test_a_submission_survives_a_restart_of_the_api_server(
    real_cluster: Cluster, api: ClusterApi, submit: Submits, on: str, when: str
) -> None:
    """As patient as xsft is; it may give up, and says so."""
    reached, stopped = threading.Event(), threading.Event()

    def stop() -> None:
        reached.set()
        stopped.wait(300)

    api.server.fail(on, action="cut-after", **{when: stop})
    patient = connect(ClusterAddress(context=api.context), here=api.here, patience=Patience(read_timeout_s=5))
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(tried, lambda: submit(cluster=patient))
        assert reached.wait(300)
        real_cluster.stop("kube-apiserver", with_signal=signal.SIGKILL)
        stopped.set()
        until(lambda: free(real_cluster.layout.ports["api"]))
        real_cluster.start("kube-apiserver")
        first = call.result()
    uids_there = real_cluster.patiently(lambda: uids(api))  # for some seconds its storage is being initialised (429)
    if isinstance(first, Submission):
        assert uids_there == [first.uid]
    else:
        assert first.exit_status in {5, 8}
        assert len(uids_there) == (1 if when == "then" else 0)
    again = submit()
    assert (again.action, [again.uid]) == ("adopted" if uids_there else "created", uids(api))


@pytest.mark.parametrize("controller", ["jobset", "kueue"])
def test_submit_without_a_controllers_webhook_creates_nothing_and_exits_5(
    real_cluster: Cluster, api: ClusterApi, bucket: Bucket, submit: Submits, controller: str
) -> None:
    real_cluster.stop(controller)
    try:
        with pytest.raises(Unreachable, match="webhook ") as caught:
            submit()
    finally:
        real_cluster.start(controller)
    assert (caught.value.exit_status, caught.value.problem_id) == (5, "webhook-down")
    assert (uids(api), bucket.objects) == ([], {})

    def again() -> Submission | None:
        done = tried(submit)
        return done if isinstance(done, Submission) else None

    assert until(again, what="the webhook", within_s=300).action == "created"


# ---- objects vanish


def test_a_jobset_deleted_before_the_read_back_is_followed_by_a_new_attempt(api: ClusterApi, submit: Submits) -> None:
    api.server.fail(CREATE, code=0, then=lambda: api.world.delete(NAME))
    first = submit()
    assert (first.action, [p.id for p in first.problems]) == ("created", ["not-read-back"])
    again = submit()
    assert (again.action, again.jobset, [again.uid]) == ("attempt", f"{NAME}-2", uids(api))


def test_a_jobset_deleted_during_its_adoption_is_followed_by_a_new_attempt(api: ClusterApi, submit: Submits) -> None:
    first = submit()
    api.server.fail(LIST, code=0, then=lambda: api.world.delete(NAME))
    assert submit().uid == first.uid  # it was there when we looked
    again = submit()
    assert (again.action, again.jobset, [again.uid]) == ("attempt", f"{NAME}-2", uids(api))


def test_submit_refuses_a_run_whose_jobset_is_being_deleted(api: ClusterApi, world: RealWorld, submit: Submits) -> None:
    submit()
    path = f"{JOBSETS.format(api.namespace)}/{NAME}"
    manifest = {"metadata": {"finalizers": ["xsft.dev/a-test"]}}
    world.cluster.api("PATCH", path, manifest, content=MERGE)
    world.cluster.api("DELETE", path)
    with pytest.raises(Refused, match="is being deleted") as caught:
        submit()
    assert caught.value.problem_id == "jobset-deleting"
    world.cluster.api("PATCH", path, {"metadata": {"finalizers": None}}, content=MERGE)
    assert submit().jobset == f"{NAME}-2"


@pytest.mark.parametrize(("saved", "action"), [(True, "finished"), (False, "attempt")])
def test_a_run_deleted_by_its_ttl_is_finished_if_its_last_step_is_saved(
    api: ClusterApi, world: RealWorld, bucket: Bucket, submit: Submits, saved: bool, action: str
) -> None:
    short = {"ttl_seconds_after_finished": 1}
    submit(short)
    world.end(NAME, "Completed")
    if saved:
        saves(bucket, STEPS)
    world.cluster.wait(lambda: not world.jobsets(), what="JobSet to delete it")
    done = submit(short)
    assert (done.action, done.steps) == (action, STEPS if saved else None)
    assert len(uids(api)) == (0 if saved else 1)


# ---- submitters die


@pytest.mark.parametrize("next_call", ["at once", "later"])
def test_a_create_that_arrives_after_its_submitter_was_killed_makes_one_run(
    api: ClusterApi, bucket: Bucket, tmp_path: Path, submit: Submits, next_call: str
) -> None:
    """The request arrives all the same: before the next call's, or after it."""
    arrives, has_arrived = threading.Event(), threading.Event()
    api.server.fail(CREATE, code=0, do=lambda: arrives.wait(600), then=has_arrived.set)
    dead = process(api, bucket, tmp_path / "state")
    assert dead.stdin
    dead.stdin.write("go\n")
    dead.stdin.flush()
    until(lambda: bool(api.server.asked(CREATE)))
    dead.kill()
    dead.communicate()
    if next_call == "later":
        arrives.set()
        until(lambda: bool(uids(api)))
    done = submit()
    assert (done.action, [done.uid]) == ({"at once": "created", "later": "adopted"}[next_call], uids(api))
    arrives.set()
    assert has_arrived.wait(600)
    assert [done.uid] == uids(api)
    assert submit().action == "adopted"


def free(port: int) -> bool:
    """A process that was killed may hold it for a moment longer."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
    return False


def test_three_processes_at_once_make_one_run(api: ClusterApi, bucket: Bucket, tmp_path: Path) -> None:
    def one(number: int) -> subprocess.Popen[str]:
        return process(api, bucket, tmp_path / str(number))

    with ThreadPoolExecutor(3) as threads:
        started = list(threads.map(one, range(3)))
        done = list(threads.map(answered, started))
    assert sorted(one["action"] for one in done) == ["adopted"] * 2 + ["created"]
    assert {one["uid"] for one in done} == set(uids(api))
