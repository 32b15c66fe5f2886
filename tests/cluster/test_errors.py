"""The error, the cause and the next step of each refusal of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing, Forbidden, Refused, SpecError, Unreachable, XsftError
from xsft.cluster import resources as kinds
from xsft.cluster.access import Access
from xsft.cluster.answers import Reply
from xsft.cluster.errors import ApiRequest, explain, invalid

ACCESS = Access(context="lab", kubeconfig=(Path("config"),), gke=False)
CREATE = ApiRequest(verb="create", resource=kinds.JOBSETS, namespace="team", name="run")
DOWN = 'failed calling webhook "vjobset.kb.io": Post "https://jobset-webhook-service.jobset-system.svc:443/v": refused'
CONVERSION = (
    "conversion webhook for kueue.x-k8s.io/v1beta2, Kind=LocalQueue failed: Post"
    ' "https://kueue-webhook-service.kueue-system.svc:443/convert?timeout=30s": no endpoints available for service'
    ' "kueue-webhook-service"'
)
RULE = "kubectl create role xsft --verb=create --resource=jobsets.jobset.x-k8s.io -n team"
SYSTEM = "kubectl --context lab -n jobset-system"
RBAC = 'jobsets is forbidden: User "u" cannot create resource "jobsets"'


def reply(status: int, message: str = "why", *, retry_after_s: float | None = None, **details: Any) -> Reply:
    body = {"kind": "Status", "message": message, "details": details}
    return Reply(status=status, body=body, retry_after_s=retry_after_s)


NOT_SERVED = Reply(status=404, body="404 page not found")
Case = tuple[Reply, ApiRequest, type[XsftError], str, str, str]
"""The answer, the request, the error, its id, and words of its message and of its fix."""
CASES: dict[str, Case] = {
    "a login that is over": (
        reply(401, "Unauthorized"), CREATE, Unreachable, "login-expired",
        "rejected the login of the context lab (HTTP 401 Unauthorized)", "renew the credentials of that context",
    ),
    "no right": (
        reply(403, RBAC), CREATE, Forbidden, "forbidden",
        "You may not create jobsets.jobset.x-k8s.io run in the namespace team (context lab): jobsets is forbidden",
        f"Ask for an RBAC rule that allows it ({RULE}, and a binding to you).",
    ),
    "no right to a kind without namespaces": (
        reply(403, 'User "u" cannot list resource "nodes"'),
        ApiRequest(verb="list", resource=kinds.NODES, namespace="team"),
        Forbidden, "forbidden", "You may not list nodes (context lab)",
        "kubectl create clusterrole xsft --verb=list --resource=nodes, and",
    ),
    "a rule of the cluster": (
        reply(403, "exceeded quota: q"), CREATE, SpecError, "admission-denied",
        "refuses to create jobsets.jobset.x-k8s.io run in the namespace team: exceeded quota: q", "change what it",
    ),
    "JobSet is not installed": (
        NOT_SERVED, CREATE, EnvironmentMissing, "jobset-not-installed",
        "JobSet is not installed on the cluster (context lab): it does not serve jobset.x-k8s.io.", "Install JobSet",
    ),
    "Kueue is not installed": (
        NOT_SERVED, ApiRequest(verb="list", resource=kinds.kueue("workloads", version="v1beta1")),
        EnvironmentMissing, "kueue-not-installed", "it does not serve kueue.x-k8s.io.", "Install Kueue",
    ),
    "another kind is not served": (
        NOT_SERVED, ApiRequest(verb="list", resource=kinds.NODES), EnvironmentMissing, "not-served",
        "The cluster (context lab) does not serve nodes.", "is a Kubernetes API server",
    ),
    "the namespace is missing": (
        reply(404, kind="namespaces", name="team"), CREATE, SpecError, "namespace-missing", "team", "lab",
    ),
    "the object is missing": (
        reply(404, kind="jobsets", name="run"), CREATE, SpecError, "manifest-invalid", "the jobset run: why", "",
    ),
    "the namespace of no namespace is missing": (
        reply(404, kind="namespaces"), replace(CREATE, namespace=None, name=None), SpecError, "manifest-invalid",
        "refuses to create jobsets.jobset.x-k8s.io: why", "",
    ),
    "the name is taken": (
        reply(409), CREATE, Refused, "name-taken", "run already exists in namespace team.", "another name",
    ),
    "an invalid object": (
        reply(422, causes=[{"field": "spec.x", "message": "must be less"}, "junk", {"field": "y"}]), CREATE, SpecError,
        "manifest-invalid", "The cluster refuses the jobset run: spec.x: must be less", "Change the workload",
    ),
    "a bad request": (reply(400), CREATE, SpecError, "manifest-invalid", "the jobset run: why", "Change the workload"),
    "an object that is too large": (
        reply(413), CREATE, SpecError, "manifest-invalid", "the jobset run", "at most 1.5 MB per object",
    ),
    "an invalid Secret": (
        reply(413), ApiRequest(verb="create", resource=kinds.SECRETS, name="s"), SpecError, "manifest-invalid",
        "the secret s", "name, key or value",
    ),
    "an error of the cluster": (
        reply(500, "etcd"), CREATE, Unreachable, "cluster-error",
        "(context lab) could not create jobsets.jobset.x-k8s.io run in the namespace team: HTTP 500 etcd",
        "Try again in a minute; nothing was recorded as done.",
    ),
    "a cluster that is too busy": (
        reply(429, "", retry_after_s=30.0), CREATE, Unreachable, "cluster-error", "HTTP 429", "Try again in 30s;",
    ),
    "a known webhook is down": (
        reply(500, DOWN), CREATE, Unreachable, "webhook-down", DOWN,
        f"(`{SYSTEM} get deployment jobset-controller-manager`, `{SYSTEM} get pods`)",
    ),
    "Kueue's webhook is down": (
        reply(500, DOWN.replace("jobset", "kueue")), CREATE, Unreachable, "webhook-down", "kueue-webhook-service",
        "`kubectl --context lab -n kueue-system get deployment kueue-controller-manager`",
    ),
    "Kueue's webhook is down, and a queue is read": (
        reply(500, CONVERSION), CREATE, Unreachable, "webhook-down", "kueue-webhook-service",
        "`kubectl --context lab -n kueue-system get deployment kueue-controller-manager`",
    ),
    "another webhook is down": (
        reply(500, DOWN.replace("jobset-webhook-service", "policy")), CREATE, Unreachable, "webhook-down", "policy",
        "get endpoints policy`",
    ),
    "a webhook outside of the cluster is down": (
        reply(500, 'failed calling webhook "x": Post "https://x.example": EOF'), CREATE, Unreachable, "webhook-down",
        "EOF", "Its webhook does not answer. Check the server at its address",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_refusal_has_its_error_and_next_step(case: str) -> None:
    answer, ask, kind, problem_id, message, fix = CASES[case]
    failed = explain(answer, ask, ACCESS)
    assert type(failed) is kind
    problem = failed.problems[0]
    assert problem.id == problem_id
    assert message in problem.message
    assert fix in problem.fix
    assert problem.message == problem.message.strip()


def test_gkes_own_ways_are_named_for_a_cluster_of_gke() -> None:
    gke = replace(ACCESS, gke=True)
    assert "gcloud auth login" in explain(reply(401), CREATE, gke).problems[0].fix
    assert (
        "roles/container.developer on the project, or an RBAC" in explain(reply(403, RBAC), CREATE, gke).problems[0].fix
    )


@pytest.mark.parametrize(
    ("case", "again"), [("a login that is over", "never"), ("another kind is not served", "unsure")]
)
def test_trying_again_does_not_help_against_a_refusal(case: str, again: str) -> None:
    answer, ask, *_ = CASES[case]
    assert explain(answer, ask, ACCESS).again == again


def test_each_cause_of_an_invalid_object_is_a_problem() -> None:
    answer, ask, *_ = CASES["an invalid object"]
    assert [problem.message.partition("run: ")[2] for problem in explain(answer, ask, ACCESS).problems] == [
        "spec.x: must be less",
        "y: ",
    ]


COORDINATOR, RESTART = "spec.coordinator", "spec.failurePolicy.restartStrategy"
OF_A_POD = "spec.replicatedJobs[0].template.spec.podReplacementPolicy"


@pytest.mark.parametrize(
    ("fields", "upgrade"),
    [
        ((COORDINATOR,), "upgrade it to JobSet v0.6.0 or later"),
        ((COORDINATOR, RESTART), "upgrade it to JobSet v0.7.0 or later"),
        ((OF_A_POD,), "upgrade it to JobSet (xpk installs v0.10.1"),
    ],
)
def test_fields_unknown_to_the_installed_jobset_name_the_release_to_install(
    fields: tuple[str, ...], upgrade: str
) -> None:
    """The words of the server: kubernetes@v1.35, fieldValidation=Strict."""
    text = ", ".join(f'unknown field "{field}"' for field in fields)
    words = f'JobSet in version "v1alpha2" cannot be handled as a JobSet: strict decoding error: {text}'
    reply = Reply(status=400, body={"kind": "Status", "message": words})
    (problem,) = invalid(reply, ApiRequest(verb="create", resource=kinds.JOBSETS, namespace="default", name="run"))
    assert upgrade in problem.fix
    assert all(field in problem.fix for field in fields)
