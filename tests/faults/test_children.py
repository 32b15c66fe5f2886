"""The Jobs that xsft asks the server about, before JobSet makes any, are the Jobs that JobSet makes: field by field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_cluster import MODES, sent_to
from tests.control_plane.api import Cluster
from tests.fakes.clusters import ClusterApi, reaching
from xsft.cluster.dry_run_problems import child_jobs

pytestmark = [pytest.mark.cluster, pytest.mark.contract]

LATER = re.compile(
    r"^/(apiVersion|kind|status|metadata/(uid|creationTimestamp|resourceVersion|managedFields|ownerReferences))\b"
    r"|jobset-uid$|controller-uid$"
)
"""Fields that do not exist before a JobSet and a Job do: identities, times, status."""


@pytest.fixture
def api(real_cluster: Cluster, tmp_path: Path) -> Iterator[ClusterApi]:
    with reaching(real_cluster, tmp_path) as cluster_apis:
        yield cluster_apis


@pytest.mark.parametrize("story", MODES)
def test_child_jobs_equal_the_jobs_that_jobset_makes(api: ClusterApi, real_cluster: Cluster, story: str) -> None:
    manifest, path = sent_to(api, story), f"/apis/batch/v1/namespaces/{api.namespace}/jobs"
    ours = [real_cluster.api("POST", f"{path}?dryRun=All", job) for job in child_jobs(stored(api, manifest))]
    api.connect().create_jobset(manifest)
    count = sum(replicated_job["replicas"] for replicated_job in manifest["spec"]["replicatedJobs"])
    real_cluster.wait(lambda: len(real_cluster.api("GET", path)["items"]) == count, what=f"{count} Jobs")
    theirs = {job["metadata"]["name"]: job for job in real_cluster.api("GET", path)["items"]}
    assert [differences(job, theirs[job["metadata"]["name"]]) for job in ours] == [[]] * len(ours)


def stored(api: ClusterApi, manifest: dict[str, Any]) -> dict[str, Any]:
    return api.connect().dry_run_jobset(manifest)


def differences(ours: Any, theirs: Any, at: str = "") -> list[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted({*ours, *theirs})
        parts = [(f"{at}/{key}", ours.get(key), theirs.get(key)) for key in keys if not LATER.search(f"{at}/{key}")]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        parts = [(f"{at}/{i}", a, b) for i, (a, b) in enumerate(zip(ours, theirs, strict=True))]
    else:
        return [] if ours == theirs else [f"{at}: {ours!r} -> {theirs!r}"]
    return [line for where, a, b in parts for line in differences(a, b, where)]
