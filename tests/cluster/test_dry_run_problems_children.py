"""The Jobs that JobSet makes, with the names and labels that its controller gives them."""

from __future__ import annotations

import copy

import pytest

from tests.cluster.test_cluster import planned
from xsft.cluster.dry_run_problems import child_jobs

PREFIX = "jobset.sigs.k8s.io"


def test_the_last_child_job_of_a_mcjax_run_has_the_names_of_its_slice() -> None:
    (job,) = child_jobs(planned("deepseek_ultrachat_mcjax"))
    labels = job["metadata"]["labels"]
    assert job["metadata"]["name"] == "deepseek-ultrachat-mcjax-slice-job-1"
    assert (labels[f"{PREFIX}/job-index"], labels[f"{PREFIX}/global-replicas"]) == ("1", "2")
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["template"]["spec"]["subdomain"] == "deepseek-ultrachat-mcjax"


def test_pathways_jobs_and_pods_have_the_coordinators_label() -> None:
    jobs = child_jobs(planned("deepseek_ultrachat"))
    assert {job["metadata"]["name"] for job in jobs} == {
        "deepseek-ultrachat-pathways-head-0",
        "deepseek-ultrachat-worker-1",
    }
    for job in jobs:
        for metadata in (job["metadata"], job["spec"]["template"]["metadata"]):
            where = metadata["labels"][f"{PREFIX}/coordinator"]
            assert where == "deepseek-ultrachat-pathways-head-0-0.deepseek-ultrachat"
            assert metadata["annotations"][f"{PREFIX}/coordinator"] == where


@pytest.mark.parametrize("workload", ["deepseek_ultrachat", "deepseek_ultrachat_mcjax"])
def test_template_labels_are_kept_and_the_manifest_is_not_changed(workload: str) -> None:
    manifest = planned(workload)
    before = copy.deepcopy(manifest)
    jobs = child_jobs(manifest)
    assert manifest == before
    assert any(j["spec"]["template"]["metadata"]["labels"].get("xsft.dev/run") for j in jobs)


def test_exclusive_placement_is_copied_to_the_jobs() -> None:
    (job,) = child_jobs(planned("deepseek_ultrachat_mcjax"))
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    assert job["spec"]["template"]["metadata"]["annotations"][key] == "cloud.google.com/gke-nodepool"


def test_global_job_indices_count_in_order() -> None:
    jobs = child_jobs(planned("deepseek_ultrachat"))
    assert [job["metadata"]["labels"][f"{PREFIX}/job-global-index"] for job in jobs] == ["0", "2"]
