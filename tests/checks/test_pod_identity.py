"""Whom Google Cloud takes the pods for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.test_demand import demand
from xsft.checks.pod_identity import PodRights, identity_problems, is_bound
from xsft.problems import Problem

EMAIL = "trainer@my-project.iam.gserviceaccount.com"
ANNOTATED = {"metadata": {"annotations": {"iam.gke.io/gcp-service-account": EMAIL}}}
PLAIN: dict[str, Any] = {"metadata": {}}


def said(account: dict[str, Any], **labels: str) -> list[Problem]:
    nodes = {"worker": ({"metadata": {"name": "n", "labels": labels}},)}
    return list(identity_problems(account, nodes, demand(), context="c"))


ON = {"cloud.google.com/gke-nodepool": "np-0", "iam.gke.io/gke-metadata-server-enabled": "true"}
OFF = {"cloud.google.com/gke-nodepool": "np-0"}


@pytest.mark.parametrize(
    ("account", "labels", "who", "command"),
    [
        (ANNOTATED, ON, f"the Google service account {EMAIL}", f"gcloud iam service-accounts get-iam-policy {EMAIL}"),
        (PLAIN, ON, "…/subject/ns/default/sa/default", "kubectl --context c -n default get serviceaccount default"),
        (PLAIN, OFF, "the service account of the node pool np-0", "gcloud container node-pools describe np-0"),
    ],
)
def test_the_identity_and_the_two_commands_are_named(
    account: dict[str, Any], labels: dict[str, str], who: str, command: str
) -> None:
    (problem,) = said(account, **labels)
    assert (problem.id, problem.severity) == ("pod-rights-not-checked", "note")
    assert "reach gs://my-bucket with the rights of " in problem.message
    assert who in problem.message
    assert "asked with the rights of your login" in problem.message
    assert command in problem.fix
    assert "gcloud storage buckets get-iam-policy gs://my-bucket" in problem.fix


def test_an_annotation_without_workload_identity_has_no_effect() -> None:
    off, identity = said(ANNOTATED, **OFF)
    assert (off.id, off.severity) == ("workload-identity-off", "warning")
    assert "--workload-metadata=GKE_METADATA" in off.fix
    assert "the service account of the node pool np-0" in identity.message


def test_nothing_is_known_of_other_nodes() -> None:
    assert said(ANNOTATED) == []


def with_rights(rights: PodRights) -> list[Problem]:
    nodes = {"worker": ({"metadata": {"name": "n", "labels": ON}},)}
    return list(identity_problems(ANNOTATED, nodes, demand(), context="c", rights=rights))


def test_rights_that_were_tested_need_no_note() -> None:
    assert with_rights(PodRights(bound=True, lacking={"gs://my-bucket": ()})) == []


def test_a_right_that_the_pods_lack_is_named_with_the_account_and_the_command() -> None:
    (problem,) = with_rights(PodRights(lacking={"gs://my-bucket": ("storage.objects.create",)}))
    assert (problem.id, problem.severity) == ("pod-permission", "error")
    assert f"as {EMAIL}" in problem.message
    assert "not with your login" in problem.message
    assert f"--member=serviceAccount:{EMAIL} --role=roles/storage.objectUser" in problem.fix


def test_a_binding_that_is_missing() -> None:
    unbound, note = with_rights(PodRights(bound=False))
    assert (unbound.id, unbound.severity) == ("workload-identity-unbound", "warning")
    assert "PROJECT.svc.id.goog[default/default]" in unbound.fix
    assert note.id == "pod-rights-not-checked"


@pytest.mark.parametrize(
    ("member", "bound"),
    [
        ("serviceAccount:p.svc.id.goog[default/default]", True),
        ("serviceAccount:p.svc.id.goog[other/default]", False),
        ("principalSet://iam.googleapis.com/…/namespace/default", True),
        ("user:ann@example.com", False),
    ],
)
def test_who_may_use_the_account(member: str, bound: bool) -> None:
    policy = {"bindings": [{"role": "roles/iam.workloadIdentityUser", "members": [member]}]}
    assert is_bound(policy, "[default/default]") is bound
