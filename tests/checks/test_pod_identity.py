"""The Google Cloud identity of the pods."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.checks.test_demand import demand
from tests.kubeobjects import parsed_nodes
from xsft.base.problems import Problem
from xsft.checks.pod_identity import PodRights, check_identity, is_bound, rights_source

EMAIL = "trainer@my-project.iam.gserviceaccount.com"
ANNOTATED = {"metadata": {"annotations": {"iam.gke.io/gcp-service-account": EMAIL}}}
NODES = "nodes@my-project.iam.gserviceaccount.com"
PLAIN: dict[str, Any] = {"metadata": {}}


def said(account: dict[str, Any], *, host_network: bool = False, **labels: str) -> list[Problem]:
    nodes = {"worker": parsed_nodes([{"metadata": {"labels": labels}}])}
    return list(check_identity(account, nodes, replace(demand(), host_network=host_network), context="c"))


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
def test_identity_of_the_pods_is_reported_with_two_commands(
    account: dict[str, Any], labels: dict[str, str], who: str, command: str
) -> None:
    (problem,) = said(account, **labels)
    assert (problem.id, problem.severity) == ("pod-rights-not-checked", "note")
    assert "reach gs://my-bucket with the rights of " in problem.message
    assert who in problem.message
    assert "with your login's rights only" in problem.message
    assert command in problem.fix
    assert "gcloud storage buckets get-iam-policy gs://my-bucket" in problem.fix


def test_an_annotation_without_workload_identity_has_no_effect() -> None:
    off, identity = said(ANNOTATED, **OFF)
    assert (off.id, off.severity) == ("workload-identity-off", "warning")
    assert "--workload-metadata=GKE_METADATA" in off.fix
    assert "the service account of the node pool np-0" in identity.message


def test_pod_identity_on_unknown_nodes_is_not_reported() -> None:
    assert said(ANNOTATED) == []


def with_rights(rights: PodRights) -> list[Problem]:
    nodes = {"worker": parsed_nodes([{"metadata": {"labels": ON}}])}
    return list(check_identity(ANNOTATED, nodes, replace(demand(), host_network=False), context="c", rights=rights))


def of_nodes(rights: PodRights, account: dict[str, Any] = PLAIN) -> list[Problem]:
    """Return what is said of pods on the host's network, as xpk renders them."""
    nodes = {"worker": parsed_nodes([{"metadata": {"labels": ON}}])}
    return list(check_identity(account, nodes, demand(), context="c", rights=rights))


def test_pods_on_the_hosts_network_use_the_account_of_their_nodes() -> None:
    (note,) = of_nodes(PodRights(email=NODES))
    assert f"the service account of the node pool np-0, {NODES}" in note.message
    assert "gcloud artifacts repositories get-iam-policy xsft --project=my-project --location=us" in note.fix
    off, _ = of_nodes(PodRights(email=NODES), ANNOTATED)
    assert (off.id, "host's network" in off.message) == ("workload-identity-off", True)
    machines = parsed_nodes([{"spec": {"providerID": "gce://p/z/m"}}])
    assert rights_source(ANNOTATED, {"worker": machines}, demand()) == "gce://p/z/m"
    assert rights_source(ANNOTATED, {}, demand()) is None


def test_access_scopes_that_allow_no_writing_are_reported() -> None:
    scopes, note = of_nodes(PodRights(email=NODES, writes=False))
    assert (scopes.id, scopes.severity, note.id) == ("node-scopes", "error", "pod-rights-not-checked")


def test_missing_workload_identity_binding_is_reported() -> None:
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
def test_is_bound_finds_members_that_may_use_the_account(member: str, bound: bool) -> None:
    policy = {"bindings": [{"role": "roles/iam.workloadIdentityUser", "members": [member]}]}
    assert is_bound(policy, "[default/default]") is bound
