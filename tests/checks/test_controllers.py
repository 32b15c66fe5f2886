"""Deployments of JobSet and Kueue, and what a dry run shows of Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.test_demand import demand
from tests.kubeobjects import parsed
from xsft.checks.controllers import (
    check_controllers,
    check_jobset_version,
    check_managed,
    check_provisioning,
    check_ready_timeout,
    ready_timeout_s,
)
from xsft.cluster.objects import CLUSTER_QUEUE, RESOURCE_FLAVOR

QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "q"}, "creationTimestamp": "2026-11-21T10:00:00Z"}


def deployment(*, wanted: int, ready: int) -> dict[str, Any]:
    metadata = {"name": "kueue-controller-manager", "namespace": "kueue-system"}
    return {"metadata": metadata, "spec": {"replicas": wanted}, "status": {"readyReplicas": ready} if ready else {}}


@pytest.mark.parametrize(("replicas", "ready", "command"), [(1, 0, "get pods"), (0, 0, "scale deployment"), (2, 1, "")])
def test_a_controller_without_ready_pods_is_named_with_the_command(replicas: int, ready: int, command: str) -> None:
    reported = list(check_controllers({"Kueue": deployment(wanted=replicas, ready=ready)}, context="c"))
    assert [p.id for p in reported] == (["controller-not-ready"] if command else [])
    assert all(f"kubectl --context c -n kueue-system {command}" in p.fix for p in reported)


@pytest.mark.parametrize(
    ("metadata", "suspend", "ids"),
    [
        (QUEUED, True, []),
        (QUEUED, False, ["kueue-not-managing"]),
        ({"creationTimestamp": "x"}, False, []),
        ({"labels": QUEUED["labels"]}, False, []),
    ],
    ids=["managed", "unmanaged", "no queue", "name taken"],
)
def test_unsuspended_dry_run_shows_that_kueue_does_not_manage_the_run(
    metadata: dict[str, Any], suspend: bool, ids: list[str]
) -> None:
    reported = list(check_managed({"metadata": metadata, "spec": {"suspend": suspend}}, context="c"))
    assert [p.id for p in reported] == ids


@pytest.mark.parametrize(
    ("tag", "ids"), [(":v0.5.2", ["jobset-old"]), (":v0.6.0", []), (":v0.10.1@sha256:0", []), (":main", []), ("", [])]
)
def test_jobset_too_old_for_kueue_is_reported(tag: str, ids: list[str]) -> None:
    manager = {"name": "manager", "image": f"registry.k8s.io/jobset/jobset{tag}"}
    installed = {"JobSet": {"spec": {"template": {"spec": {"containers": [manager]}}}}}
    labelled = {"f": parsed({"spec": {"nodeLabels": {"a": "b"}}}, RESOURCE_FLAVOR)}
    assert [p.id for p in check_jobset_version(installed, labelled, context="c")] == ids
    assert list(check_jobset_version(installed, {"f": parsed({}, RESOURCE_FLAVOR)}, context="c")) == []


@pytest.mark.parametrize(
    ("spec", "required"),
    [
        ({}, {}),
        ({"admissionChecks": ["a"]}, {"a": ()}),
        ({"admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["f"]}]}}, {"a": ("f",)}),
        ({"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}, {"a": (), "b": ()}),
    ],
)
def test_checks_of_both_api_versions_are_read(spec: dict[str, Any], required: dict[str, Any]) -> None:
    assert parsed({"spec": spec}, CLUSTER_QUEUE).required_checks == required


ACTIVE = [{"type": "Active", "status": "True", "message": "ready"}]
INACTIVE = [{"type": "Active", "status": "False", "message": "its configuration is missing"}]


@pytest.mark.parametrize(
    ("conditions", "severity", "words"),
    [
        (ACTIVE, "note", "The check is active."),
        (INACTIVE, "warning", "The check is not active, so no run passes it: its configuration is missing"),
        ([], "warning", "no controller has reported on it"),
    ],
)
def test_a_provisioning_check_is_named_with_its_state(
    conditions: list[dict[str, str]], severity: str, words: str
) -> None:
    check = provisioning(conditions)
    (problem,) = check_provisioning(parsed(provisioned([]), CLUSTER_QUEUE), {"dws": check}, {}, demand())
    assert (problem.id, problem.severity, problem.where) == ("queue-provisioning", severity, "queue")
    assert "AdmissionCheck dws (ProvisioningRequest): a run that has quota starts only after this" in problem.message
    assert words in problem.message


def test_a_check_of_another_controller_or_of_flavors_that_the_run_does_not_get_is_not_named() -> None:
    other = {"spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}
    assert list(check_provisioning(parsed(provisioned([]), CLUSTER_QUEUE), {"dws": other}, {}, demand())) == []
    own = parsed({"spec": {"nodeLabels": demand().pod_sets[1].node_selector}}, RESOURCE_FLAVOR)
    spot = parsed({"spec": {"nodeTaints": [{"key": "spot", "effect": "NoSchedule"}]}}, RESOURCE_FLAVOR)
    flavors = {"own": own, "spot": spot}
    names = [{"name": "own"}, {"name": "spot"}]
    for only_on, count in (("own", 1), ("spot", 0)):
        queue = provisioned([only_on])
        queue["spec"]["resourceGroups"] = [{"coveredResources": ["google.com/tpu"], "flavors": names}]
        checks = {"dws": provisioning(ACTIVE)}
        assert len(list(check_provisioning(parsed(queue, CLUSTER_QUEUE), checks, flavors, demand()))) == count


def provisioning(conditions: list[dict[str, str]]) -> dict[str, Any]:
    return {"spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"}, "status": {"conditions": conditions}}


def provisioned(only_on: list[str]) -> dict[str, Any]:
    """A ClusterQueue with the check `dws` on these flavors."""
    return {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "dws", "onFlavors": only_on}]}}}


NEW, OLD = "config.kueue.x-k8s.io/v1beta2", "config.kueue.x-k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("config", "timeout_s"),
    [
        (f"apiVersion: {NEW}\nwaitForPodsReady: {{timeout: 5m0s}}", 300),
        (f"apiVersion: {OLD}\nwaitForPodsReady: {{enable: true, timeout: 1h30m}}", 5400),
        (f"apiVersion: {OLD}\nwaitForPodsReady: {{enable: true}}", 300),
        (f"apiVersion: {OLD}\nwaitForPodsReady: {{enable: false, timeout: 5m}}", None),
        (f"apiVersion: {OLD}\nwaitForPodsReady: {{timeout: 5m}}", None),
        (f"apiVersion: {NEW}\n#waitForPodsReady:\n#  timeout: 5m", None),
        (f"apiVersion: {NEW}\nwaitForPodsReady: {{timeout: soon}}", None),
        (f"apiVersion: {NEW}\nwaitForPodsReady: {{timeout: 5}}", None),
        ("{", None),
        ("", None),
    ],
)
def test_the_timeout_is_read_from_the_configuration_of_kueue(config: str, timeout_s: float | None) -> None:
    assert ready_timeout_s({"data": {"controller_manager_config.yaml": config}}) == timeout_s
    assert ready_timeout_s({}) is None


@pytest.mark.parametrize(
    ("timeout_s", "image_bytes", "lacks_nodes", "words"),
    [
        (300, 30 * 10**9, False, "needs about 10m: every host pulls the image, 30 GB at about 50 MB a second"),
        (300, None, True, "needs about 20m: nodes must be added to the cluster first"),
        (300, 15 * 10**9, False, ""),
        (1200, None, True, ""),
        (300, None, False, ""),
        (None, 30 * 10**9, True, ""),
    ],
)
def test_a_timeout_shorter_than_the_start_is_a_warning(
    timeout_s: float | None, image_bytes: int | None, lacks_nodes: bool, words: str
) -> None:
    problems = list(check_ready_timeout(timeout_s, image_bytes=image_bytes, lacks_nodes=lacks_nodes, context="c"))
    assert [(p.id, p.severity) for p in problems] == ([("ready-timeout", "warning")] if words else [])
    assert all(words in p.message and "ready 5m after its admission" in p.message for p in problems)
