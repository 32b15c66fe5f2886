"""Deployments of JobSet and Kueue, and what a dry run shows of Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from xsft.checks.controllers import controller_problems, unmanaged_problems, version_problems

QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "q"}, "creationTimestamp": "2026-11-21T10:00:00Z"}


def deployment(*, wanted: int, ready: int) -> dict[str, Any]:
    metadata = {"name": "kueue-controller-manager", "namespace": "kueue-system"}
    return {"metadata": metadata, "spec": {"replicas": wanted}, "status": {"readyReplicas": ready} if ready else {}}


@pytest.mark.parametrize(("wanted", "ready", "command"), [(1, 0, "get pods"), (0, 0, "scale deployment"), (2, 1, "")])
def test_a_controller_without_ready_pods_is_named_with_the_command(wanted: int, ready: int, command: str) -> None:
    found = list(controller_problems({"Kueue": deployment(wanted=wanted, ready=ready)}, context="c"))
    assert [p.id for p in found] == (["controller-not-ready"] if command else [])
    assert all(f"kubectl --context c -n kueue-system {command}" in p.fix for p in found)


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
    found = list(unmanaged_problems({"metadata": metadata, "spec": {"suspend": suspend}}, context="c"))
    assert [p.id for p in found] == ids


@pytest.mark.parametrize(
    ("tag", "ids"), [(":v0.5.2", ["jobset-old"]), (":v0.6.0", []), (":v0.10.1@sha256:0", []), (":main", []), ("", [])]
)
def test_jobset_too_old_for_kueue_is_reported(tag: str, ids: list[str]) -> None:
    manager = {"name": "manager", "image": f"registry.k8s.io/jobset/jobset{tag}"}
    installed = {"JobSet": {"spec": {"template": {"spec": {"containers": [manager]}}}}}
    labelled = {"f": {"spec": {"nodeLabels": {"a": "b"}}}}
    assert [p.id for p in version_problems(installed, labelled, context="c")] == ids
    assert list(version_problems(installed, {"f": {"spec": {}}}, context="c")) == []
