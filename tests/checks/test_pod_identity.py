"""Whom Google Cloud takes the pods for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.test_demand import demand
from xsft.checks.pod_identity import identity_problems
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
