"""Each request of a submission, in turn, meets each fault: nothing lost, nothing doubled, nothing foreign touched, and
the next call tells the truth.

Every fault comes at the create and at the read back. Every request meets two of them: one on the stand-in, and the
other on the real server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_cluster import CREATE
from tests.fakes.clusters import ClusterApi
from tests.fakes.gcs import Bucket, serving
from tests.submissions import NAME, planned, submitter
from xsft.base.errors import XsftError
from xsft.launch.submission import Submission

pytestmark = pytest.mark.loopback

BEFORE: dict[str, dict[str, Any]] = {
    "429": {"code": 429, "retry_after": "2"},
    "429 for an hour": {"code": 429, "retry_after": "3600"},
    "500": {"code": 500},
    "503": {"code": 503},
    "504": {"code": 504},
    "410": {"code": 410, "message": "The resourceVersion for the provided list is too old."},
    "expired token": {"code": 401, "message": "Unauthorized"},
    "cut before": {"action": "cut-before"},
    "reset before": {"action": "reset-before"},
    "hang before": {"action": "hang-before"},
}
AFTER: dict[str, dict[str, Any]] = {
    "cut after": {"action": "cut-after"},
    "reset after": {"action": "reset-after"},
    "hang after": {"action": "hang-after"},
    "truncated body": {"action": "short"},
    "truncated JSON": {"action": "broken-json"},
    "truncated gzip": {"action": "broken-gzip"},
}
FAULTS = {**BEFORE, **AFTER}
EXIT_STATUSES = {5, 8}
"""Not reached, and not known: no fault of the network is the workload's."""


@dataclass
class Scene:
    """A cluster with something foreign on it, an empty bucket, and who submits there."""

    api: ClusterApi
    bucket: Bucket
    state: Path

    def submit(self, by: str = "a") -> Submission:
        make = partial(submitter, self.api, bucket_url=self.bucket.url, state=self.state)
        return make(by=by * 16).submit(planned(namespace=self.api.namespace))

    def tried(self, *, silent: bool) -> Submission | XsftError:
        """`silent`: one request gets no answer. Only then is the wait for answers short."""
        usual_s = self.api.read_timeout_s
        if silent:
            self.api.expect_silence()
        try:
            return self.submit()
        except XsftError as failed:
            return failed
        finally:
            self.api.read_timeout_s = usual_s

    def foreign(self) -> dict[str, Any]:
        somebody_elses = self.api.world.jobsets()["somebody-elses"]
        return {
            "uid": somebody_elses["metadata"]["uid"],
            "labels": somebody_elses["metadata"].get("labels"),
            "spec": somebody_elses["spec"],
        }

    @property
    def ours(self) -> list[str]:
        return [
            jobset["metadata"]["uid"] for name, jobset in self.api.world.jobsets().items() if name != "somebody-elses"
        ]

    def clean(self) -> None:
        """Restore the state before the first call."""
        self.api.server.faults.clear()
        self.api.server.seen.clear()
        self.bucket.objects.clear()
        for name in self.api.world.jobsets().keys() - {"somebody-elses"}:
            self.api.world.delete(name)


@pytest.fixture
def scene(cluster_api: ClusterApi, tmp_path: Path) -> Iterator[Scene]:
    cluster_api.world.add_jobset("somebody-elses")
    with serving(Bucket({})) as bucket:
        yield Scene(cluster_api, bucket, tmp_path / "state")


def requests_of(scene: Scene) -> tuple[int, int]:
    """Return how many requests a submission sends, and which of them creates."""
    scene.submit()
    (create,) = scene.api.server.asked(CREATE)
    request_count = len(scene.api.server.seen), scene.api.server.seen.index(create)
    scene.clean()
    return request_count


def holds(scene: Scene, position: int, fault: dict[str, Any]) -> None:
    """The law, for one request and one fault."""
    before = scene.foreign()
    scene.api.server.fail(".", skip=position, **fault)
    first = scene.tried(silent=str(fault.get("action")).startswith("hang"))
    ours = scene.ours
    assert len(ours) <= 1
    assert ours == [first.uid] if isinstance(first, Submission) else first.exit_status in EXIT_STATUSES, first
    scene.api.server.faults.clear()
    again = scene.submit(by="b")
    assert (again.action, again.jobset) == ("adopted" if ours else "created", NAME)
    assert [again.uid] == scene.ours == (ours or scene.ours)
    assert scene.foreign() == before
    assert {request.method for request in scene.api.server.seen} <= {"GET", "POST"}
    scene.clean()


def test_a_fault_after_any_request_was_served_leaves_at_most_one_run(scene: Scene) -> None:
    count, create = requests_of(scene)
    for position, fault in product(range(create, count), AFTER.values()):
        holds(scene, position, fault)


@pytest.mark.standin_only("before-server")
def test_a_fault_before_any_request_is_served_leaves_at_most_one_run(scene: Scene) -> None:
    count, create = requests_of(scene)
    for position, fault in product(range(create, count), BEFORE.values()):
        holds(scene, position, fault)


def test_a_fault_at_each_request_of_a_submission_leaves_at_most_one_run(scene: Scene) -> None:
    count, _ = requests_of(scene)
    quick = cycle(fault for name, fault in FAULTS.items() if not name.startswith("hang"))
    first = 0 if scene.api.kube_api else count
    for position, fault in enumerate(islice(quick, first, first + count)):
        holds(scene, position, fault)


def test_faults_at_all_requests_from_one_on_leave_at_most_one_run(scene: Scene) -> None:
    count, create = requests_of(scene)
    for position, fault in product((0, create, count - 1), ("503", "reset after")):
        holds(scene, position, {**FAULTS[fault], "times": 999})


def test_a_server_clock_that_is_hours_off_changes_no_submission(scene: Scene) -> None:
    """The Date of answers is hours off, either way."""
    for skew_s in (-7 * 3600.0, 7 * 3600.0):
        scene.api.server.skew_s = skew_s
        assert scene.submit().action == "created"
        assert scene.submit().action == "adopted"
        scene.clean()
