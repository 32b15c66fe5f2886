"""The problems that responses to dry runs mean, in the server's words.

tests/control_plane/test_admission.py has real ones.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cluster.answers import FORBIDDEN, TRIES, Answers
from xsft.base.errors import Unreachable
from xsft.cluster.cluster import Cluster

WORKER = {"name": "worker", "image": "i", "resources": {"limits": {"google.com/tpu": "4"}}}
HELPER = {"name": "helper", "image": "i"}
TEMPLATE = {"spec": {"template": {"spec": {"containers": [WORKER], "initContainers": [HELPER]}}}}
JOBSET: dict[str, Any] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "a", "namespace": "team", "uid": "u"},
    "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": TEMPLATE}]},
}
STORED = {"metadata": {"name": "a"}, "spec": {"suspend": True}}
TAKEN = (409, {"message": "exists"})
EXACT = {"dryRun": ["All"], "fieldManager": ["xsft"], "fieldValidation": ["Strict"]}


def denied(message: str) -> tuple[int, dict[str, str]]:
    return 403, {"message": message}


def refused(message: str) -> tuple[int, dict[str, Any]]:
    return 422, {"message": message, "details": {"causes": [{"field": "spec.x", "message": message}]}}


def test_a_dry_run_is_strict_and_stores_nothing() -> None:
    answers = Answers((201, STORED), TAKEN, FORBIDDEN)
    assert Cluster(answers.api).dry_run_jobset(JOBSET) == STORED
    assert answers.sent == [("POST", JOBSET)]
    path = urlsplit(answers.paths[0])
    assert (path.path, parse_qs(path.query)) == ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets", EXACT)
    assert Cluster(answers.api).dry_run_jobset(JOBSET) == JOBSET
    with pytest.raises(Unreachable, match=r"You may not create jobsets\.jobset\.x-k8s\.io a in the namespace team"):
        Cluster(answers.api).dry_run_jobset(JOBSET)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((201, STORED), []),
        (TAKEN, []),
        (FORBIDDEN, ["jobs-not-checked"]),
        (refused("must be less"), ["manifest-invalid"]),
        ((400, {"message": "unknown field"}), ["manifest-invalid"]),
        (denied('admission webhook "x" denied the request: no'), ["admission-denied"]),
    ],
)
def test_job_problems_maps_each_response_to_its_problem(answer: Any, expected: list[str]) -> None:
    assert [problem.id for problem in Cluster(Answers(answer).api).dry_run_jobs(JOBSET)] == expected


def test_a_replicated_job_without_replicas_is_invalid() -> None:
    none = {**JOBSET, "spec": {"replicatedJobs": [{"name": "w", "replicas": 0, "template": TEMPLATE}]}}
    (problem,) = Cluster(Answers((201, STORED)).api).dry_run_jobs(none)
    assert problem.id == "manifest-invalid"
    assert "The replicated job w has 0 replicas" in problem.message


def test_a_cluster_that_does_not_answer_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        Cluster(Answers(*[(500, {"message": "etcd"})] * TRIES).api).dry_run_jobs(JOBSET)


@pytest.mark.parametrize(
    ("message", "id", "fix"),
    [
        (
            'error looking up service account team/trainer: serviceaccount "trainer" not found',
            "service-account-missing",
            "kubectl --context lab -n team create serviceaccount trainer",
        ),
        (
            'violates PodSecurity "baseline:latest": host namespaces',
            "pod-security",
            "kubectl --context lab label namespace team pod-security.kubernetes.io/enforce=privileged --overwrite",
        ),
        ("maximum cpu usage per Pod is 1", "limit-range", "kubectl --context lab -n team get limitrange -o yaml"),
        ("exceeded quota: cpus, requested: 2", "resource-quota", "-n team describe resourcequota cpus"),
        ("failed quota: cpus: must specify", "resource-quota", "-n team describe resourcequota cpus"),
        ('admission webhook "x" denied the request: no', "admission-denied", ""),
    ],
)
def test_a_refused_pod_names_the_rule_and_the_command(message: str, id: str, fix: str) -> None:
    (problem,) = Cluster(Answers(denied(f'pods "a" is forbidden: {message}')).api).dry_run_pods(JOBSET)
    assert (problem.id, problem.severity) == (id, "error")
    assert message.partition(" ")[0] in problem.message
    assert fix in problem.fix


@pytest.mark.parametrize(("answer", "expected"), [(TAKEN, []), (FORBIDDEN, ["pods-not-checked"])])
def test_a_taken_pod_name_is_no_problem_and_a_forbidden_dry_run_is_unread(answer: Any, expected: list[str]) -> None:
    problems = Cluster(Answers(answer).api).dry_run_pods(JOBSET)
    assert [(problem.id, problem.kind) for problem in problems] == [(one, "unread") for one in expected]


def test_limits_that_the_namespace_adds_are_reported() -> None:
    helper = {**HELPER, "resources": {"limits": {"memory": "1Gi", "cpu": "2"}}}
    stored = {**STORED, "spec": {"containers": [WORKER, {"name": "sidecar"}], "initContainers": [helper]}}
    (problem,) = Cluster(Answers((201, stored)).api).dry_run_pods(JOBSET)
    assert (problem.id, problem.where) == ("limit-range-default", "namespace")
    assert "limits the container helper to cpu=2, memory=1Gi, which the run does not set" in problem.message
    assert "kubectl --context lab -n team get limitrange -o yaml" in problem.fix
