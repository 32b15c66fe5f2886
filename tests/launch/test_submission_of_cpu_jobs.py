"""The submission of a conversion, by the same steps as a training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cluster.test_cluster import CREATE
from tests.cpujobs import NAME, WRITES, planned
from tests.fakes.clusters import ClusterApi
from tests.fakes.gcs import Bucket
from tests.submissions import submitter
from xsft.base.errors import Refused
from xsft.launch.submission import Submission
from xsft.records.record import Record
from xsft.weights.inspect import checkpoint_path, conversion_of, source_of

pytestmark = pytest.mark.loopback

Submits = Callable[..., Submission]


@pytest.fixture
def submit(cluster_api: ClusterApi, bucket: Bucket, tmp_path: Path) -> Submits:
    cluster_api.connect().create_secret(name="hf-token", namespace=cluster_api.namespace, data={"token": b"x"})

    def send(*, made: bool = False, writes: str = WRITES, **settings: Any) -> Submission:
        place_arguments = {"namespace": cluster_api.namespace}
        submitter_of_job = submitter(
            cluster_api,
            bucket_url=bucket.url,
            state=tmp_path / "state",
            replan=lambda attempt: planned(attempt=attempt, **place_arguments, **settings),
            made=lambda path: made and path == WRITES,
        )
        plan = planned(**place_arguments, **settings)
        return submitter_of_job.submit(replace(plan, job=replace(plan.job, writes=writes)))

    return send


@pytest.fixture
def records(cluster_api: ClusterApi, bucket: Bucket, tmp_path: Path) -> Callable[[], tuple[Record, ...]]:
    store = submitter(cluster_api, bucket_url=bucket.url, state=tmp_path / "state").store
    return lambda: store.read_run("gs://my-bucket/runs", NAME)


def test_conversion_of_finds_a_conversion_by_its_result_and_checkpoint_path_by_name(
    cluster_api: ClusterApi, submit: Submits, bucket: Bucket, tmp_path: Path
) -> None:
    done = submit()
    store = submitter(cluster_api, bucket_url=bucket.url, state=tmp_path / "state").store
    conversion = conversion_of(WRITES, store)
    assert conversion is not None
    assert (conversion.run_name, conversion.spec_digest, source_of(conversion)) == (
        NAME,
        done.plan.spec_digest,
        "google/gemma-2-2b",
    )
    assert conversion_of(WRITES.replace("0123456789ab", "ffffffffffff"), store) is None
    assert conversion_of("gs://my-bucket/elsewhere/0/items", store) is None
    assert checkpoint_path(NAME, store=store) == WRITES


@pytest.mark.early
def test_the_created_jobset_is_the_manifest_of_the_plan(
    cluster_api: ClusterApi, submit: Submits, records: Callable[[], tuple[Record, ...]]
) -> None:
    done = submit()
    (create,) = cluster_api.server.asked(CREATE)
    assert create.body == done.plan.manifest
    assert (done.action, done.jobset) == ("created", NAME)
    assert [p.id for p in done.problems if p.id == "read-back-differs"] == []
    (record,) = records()
    assert (record.last.outcome, record.last.uid, record.steps) == ("created", done.uid, 0)
    assert record.last.resolved["work"] == "convert"
    assert record.last.resolved["writes"] == WRITES
    assert record.last.argv[:3] == ("python3", "-m", "maxtext.checkpoint_conversion.to_maxtext")


def test_a_second_call_adopts_the_first(cluster_api: ClusterApi, submit: Submits) -> None:
    first, second = submit(), submit()
    assert (second.action, second.uid) == ("adopted", first.uid)
    assert len(cluster_api.world.jobsets()) == 1


def test_other_inputs_under_an_active_name_are_refused(submit: Submits) -> None:
    submit()
    with pytest.raises(Refused, match="is active with other inputs") as caught:
        submit(digest="cd" * 32)
    assert caught.value.problem_id == "job-differs"


def test_a_conversion_whose_result_exists_is_finished(cluster_api: ClusterApi, submit: Submits) -> None:
    assert submit(made=True).action == "finished"
    assert cluster_api.world.jobsets() == {}


def test_a_conversion_that_completed_in_another_folder_is_finished(cluster_api: ClusterApi, submit: Submits) -> None:
    first = submit()
    cluster_api.world.end(NAME, "Completed")
    done = submit(made=True, writes=WRITES.replace("0123456789ab", "0123456789ab-2"))
    assert (done.action, done.uid) == ("finished", first.uid)
    assert (done.plan.job.writes, len(cluster_api.world.jobsets())) == (WRITES, 1)


def test_a_failed_conversion_is_repeated_under_the_next_name(
    cluster_api: ClusterApi, submit: Submits, records: Callable[[], tuple[Record, ...]]
) -> None:
    submit()
    cluster_api.world.end(NAME, "Failed")
    again = submit()
    assert (again.action, again.jobset) == ("attempt", f"{NAME}-2")
    first, second = (attempt_record.last for attempt_record in records())
    assert (first.outcome, first.reason) == ("failed", "its JobSet failed, and its result is incomplete")
    assert second.outcome == "created"
    submit()
    assert [attempt_record.last.outcome for attempt_record in records()] == ["failed", "created"], "it still runs"


def test_each_earlier_attempt_is_recorded_with_its_own_end(
    cluster_api: ClusterApi, submit: Submits, records: Callable[[], tuple[Record, ...]]
) -> None:
    """The end of a JobSet that is gone is unknown."""
    submit()
    cluster_api.world.end(NAME, "Failed")
    submit()
    cluster_api.world.end(f"{NAME}-2", "Completed")
    submit()
    first, second, _ = (attempt_record.last for attempt_record in records())
    assert [first.reason, second.reason] == [
        "its JobSet failed, and its result is incomplete",
        "its JobSet completed, and its result is incomplete",
    ]
    cluster_api.world.delete(f"{NAME}-3")
    assert submit().jobset == f"{NAME}-4"
    assert [attempt_record.last.outcome for attempt_record in records()] == ["failed", "failed", "created", "created"]
    assert [attempt_record.last for attempt_record in records()][:2] == [first, second]


def test_an_adopted_job_writes_to_the_folder_it_was_created_with(submit: Submits) -> None:
    submit()
    adopted = submit(writes=WRITES.replace("0123456789ab", "0123456789ab-2"))
    assert (adopted.action, adopted.plan.job.writes) == ("adopted", WRITES)
