"""An output that cannot be written is reported before a run, and the check writes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.gcs import ALL, Bucket, Failure, serving
from tests.machine.test_objects import remote
from xsft.base.errors import Unreachable
from xsft.base.problems import Problem
from xsft.machine.writable import (
    BUCKET_PERMISSION,
    DELETE_PERMISSION,
    MIN_FREE_BYTES,
    OBJECT_PERMISSIONS,
    SOON_DAYS,
    check_writable,
)


def told(bucket: Bucket, output: str = "gs://my-bucket/runs", *, zone: str | None = None) -> tuple[Problem, ...]:
    found = check_writable(output, zone, objects=remote(bucket))
    assert {problem.where for problem in found} <= {"output"}
    return found


def grant(role: str) -> str:
    return f"gcloud storage buckets add-iam-policy-binding gs://my-bucket --member=… --role={role}"


def ids(problems: tuple[Problem, ...]) -> list[tuple[str, str]]:
    return [(p.id, p.severity) for p in problems]


def test_a_bucket_with_all_permissions_has_no_problem_and_is_not_written(bucket: Bucket) -> None:
    assert told(bucket) == ()
    assert bucket.changes == []
    assert bucket.objects == {}
    assert len(bucket.questions) == 1


@pytest.mark.parametrize("lacking", OBJECT_PERMISSIONS)
def test_each_missing_permission_is_named_with_its_role(lacking: str, bucket: Bucket) -> None:
    bucket.permissions = ALL - {lacking}
    (problem,) = told(bucket)
    assert (problem.id, problem.severity, problem.where) == ("output-permission", "error", "output")
    assert lacking in problem.message
    assert problem.fix.endswith(grant("roles/storage.objectUser"))


def test_a_missing_bucket_get_permission_is_a_warning(bucket: Bucket) -> None:
    bucket.permissions = ALL - {BUCKET_PERMISSION}
    (problem,) = told(bucket)
    assert ids((problem,)) == [("output-bucket-get", "warning")]
    assert problem.fix.endswith(grant("roles/storage.legacyBucketReader"))


def test_missing_delete_permission_retention_and_requester_pays_are_warnings(bucket: Bucket) -> None:
    bucket.permissions = ALL - {DELETE_PERMISSION}
    (problem,) = told(bucket)
    assert ids((problem,)) == [("output-delete", "warning")]
    assert problem.fix.endswith(grant("roles/storage.objectUser"))
    bucket.permissions = ALL
    bucket.settings = {"retentionPolicy": {"retentionPeriod": "864000"}, "billing": {"requesterPays": True}}
    assert ids(told(bucket)) == [("output-retention", "warning"), ("output-requester-pays", "warning")]


def rule(kind: str = "Delete", **condition: object) -> dict[str, object]:
    action = {"type": kind, "storageClass": "NEARLINE"}
    return {"lifecycle": {"rule": [{"action": action, "condition": condition}]}}


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        (rule(age=7), True),
        (rule(age=SOON_DAYS), True),
        (rule(age=SOON_DAYS + 1), False),
        (rule(age=7, isLive=True, matchesPrefix=["runs"]), True),
        (rule(age=1, matchesPrefix=["tmp/", "runs"]), True),
        (rule(age=1, matchesPrefix=["tmp/"]), False),
        (rule(age=365), False),
        (rule(age=7, isLive=False), False),
        (rule(age=7, numNewerVersions=3), False),
        (rule("SetStorageClass", age=7), False),
    ],
    ids=[
        "after 7 days",
        "at the limit",
        "after the limit",
        "live objects under the prefix",
        "one of two prefixes",
        "another prefix",
        "after a year",
        "old versions only",
        "three newer versions",
        "moved to another class",
    ],
)
def test_a_lifecycle_rule_that_deletes_the_output_soon_is_a_warning(
    bucket: Bucket, settings: dict[str, object], reported: bool
) -> None:
    bucket.settings = settings
    assert ids(told(bucket)) == ([("output-lifecycle", "warning")] if reported else [])


def test_the_earliest_lifecycle_rule_is_named_with_the_folder(bucket: Bucket) -> None:
    first, then = (rule(age=days)["lifecycle"]["rule"][0] for days in (9, 7))  # type: ignore[index]
    bucket.settings = {"lifecycle": {"rule": [first, then]}}
    assert "deletes objects under runs after 7 days" in told(bucket)[0].message
    assert "deletes objects under it after 7 days" in told(bucket, "gs://my-bucket")[0].message


@pytest.mark.parametrize(
    ("location", "zone", "far"),
    [
        ("EUROPE-WEST4", "us-east5-b", True),
        ("ASIA1", "europe-west4-a", True),
        ("US", "us-east5-b", False),
        ("NAM4", "us-central2-b", False),
        ("NORTHAMERICA-NORTHEAST1", "us-east5-b", False),
        ("EU", "europe-west4-a", False),
        ("EUR4", "europe-west4-a", False),
        ("EUROPE-WEST4", None, False),
    ],
)
def test_a_bucket_on_another_continent_is_a_warning(bucket: Bucket, location: str, zone: str | None, far: bool) -> None:
    bucket.settings = {"location": location}
    assert ids(told(bucket, zone=zone)) == ([("output-far", "warning")] if far else [])


def test_a_bucket_without_any_permission_has_two_problems(bucket: Bucket) -> None:
    bucket.permissions = frozenset()
    assert ids(told(bucket)) == [("output-permission", "error"), ("output-bucket-get", "warning")]


def test_a_bucket_that_does_not_exist_is_reported(bucket: Bucket) -> None:
    (problem,) = told(bucket, "gs://mispelt/runs")
    assert problem.id == "output-bucket-missing"
    assert "mispelt" in problem.message


def test_a_login_that_cannot_query_permissions_is_unreachable_with_the_role(bucket: Bucket) -> None:
    bucket.status = 403
    with pytest.raises(Unreachable, match="permission denied") as caught:
        told(bucket)
    assert "roles/storage.objectUser" in caught.value.fix


def test_a_busy_bucket_is_retried(bucket: Bucket) -> None:
    bucket.failures += [Failure(status=503), Failure(status=429)]
    assert told(bucket) == ()


def test_a_missing_login_is_reported_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no Google Cloud login was found") as caught:
        check_writable("gs://my-bucket/runs", env={"HOME": str(tmp_path)})
    assert "gcloud auth application-default login" in caught.value.fix


def test_the_environment_is_that_of_the_process_or_the_given_one(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
    assert check_writable("gs://my-bucket/runs") == ()
    with pytest.raises(Unreachable, match="no Google Cloud login"):
        check_writable("gs://my-bucket/runs", env={"HOME": "/nonexistent"})


def test_a_refused_connection_is_unreachable() -> None:
    with serving(Bucket({})) as gone:
        pass
    with pytest.raises(Unreachable, match="no connection"):
        told(gone)


def test_a_folder_that_can_be_created_has_no_problem_and_is_not_created(tmp_path: Path) -> None:
    assert check_writable(str(tmp_path)) == ()
    assert check_writable(str(tmp_path / "a" / "b")) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("file", "file/below", "dangling"):
        (problem,) = check_writable(str(tmp_path / name))
        assert problem.id == "output-not-writable"
        assert "is not a folder" in problem.message


def test_a_nearly_full_disk_is_reported(tmp_path: Path) -> None:
    (problem,) = check_writable(str(tmp_path), free=lambda _: 5 * 10**6)
    assert problem.id == "output-disk-full"
    assert "has 5 MB free, and a run needs at least 100 MB" in problem.message
    assert check_writable(str(tmp_path), free=lambda _: MIN_FREE_BYTES) == ()


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000])
def test_a_path_that_no_file_system_accepts_is_a_problem(name: str) -> None:
    (problem,) = check_writable(f"/{name}")
    assert problem.id == "output-not-writable"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere, so no permission can be denied to it")
def test_a_folder_of_another_user_is_reported(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    (problem,) = check_writable(str(tmp_path / "closed" / "runs"))
    assert problem.id == "output-not-writable"
