"""A create through xpk: its exit statuses, the outcome read from the cluster, and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_cluster import CREATE
from tests.fakes.clusters import ClusterApi
from tests.replacing import replace
from tests.submissions import planned as shown
from xsft.base.errors import Refused, SpecError, TimedOut, Unknown
from xsft.cluster.exactly_once import CreatedObject, ExistingObject
from xsft.launch.through_xpk import ThroughXpk, environment, refuse_losses
from xsft.machine.process import ProcessResult
from xsft.planning.steps import Plan

Plans = Callable[..., Plan]
READ = r"^GET .*/jobsets/"


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    for name in ("gcloud", "kubectl"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return {"PATH": str(tmp_path), "HOME": str(tmp_path)}


@pytest.fixture
def planned(cluster_api: ClusterApi) -> Plans:
    """The shown workload's plan, for this test's namespace."""
    return partial(shown, namespace=cluster_api.namespace)


def ended(status: int, *, doing: Callable[[], object] = lambda: None) -> Callable[..., ProcessResult]:
    def run(argv: tuple[str, ...], **_: Any) -> ProcessResult:
        if argv[0] == "gcloud":
            return ProcessResult(argv=argv, status=0, stdout="123\n", stderr="")
        assert "--quiet" not in argv
        assert argv[-1] == "--project-number=123"
        doing()
        if status < 0:
            raise TimedOut("xpk did not end within 1 s")
        return ProcessResult(argv=argv, status=status, stdout="[XPK] one\n[XPK] two\n", stderr="")

    return run


def through(env: dict[str, str], run: Callable[..., ProcessResult]) -> ThroughXpk:
    return ThroughXpk(python=Path("python"), env=env, run=run)


@pytest.mark.parametrize("status", [0, 1, -1])
def test_an_existing_jobset_is_created_whatever_xpk_prints(
    cluster_api: ClusterApi, tools: dict[str, str], status: int, planned: Plans
) -> None:
    cluster, plan = cluster_api.connect(), planned()
    through_xpk = through(tools, ended(status, doing=lambda: cluster.create_jobset(plan.manifest or {})))
    outcome = through_xpk(cluster, plan, "mark")
    assert isinstance(outcome, CreatedObject)
    assert outcome.object["metadata"]["name"] == plan.jobset


@pytest.mark.parametrize(("status", "kind"), [(0, Unknown), (-1, Unknown), (1, SpecError)])
def test_a_missing_jobset_is_unknown_unless_xpk_reports_an_error(
    cluster_api: ClusterApi, tools: dict[str, str], status: int, kind: type[Exception], planned: Plans
) -> None:
    with pytest.raises(kind):
        through(tools, ended(status))(cluster_api.connect(), planned(), "mark")


def test_a_failed_read_back_is_unknown(cluster_api: ClusterApi, tools: dict[str, str], planned: Plans) -> None:
    server = cluster_api.server
    blind = ended(0, doing=lambda: server.fail(READ, action="cut-before", times=9))
    with pytest.raises(Unknown, match="reading it back failed"):
        through(tools, blind)(cluster_api.connect(), planned(), "mark")


def test_a_taken_name_prevents_the_start_of_xpk(cluster_api: ClusterApi, tools: dict[str, str], planned: Plans) -> None:
    cluster, plan = cluster_api.connect(), planned()
    cluster.create_jobset(plan.manifest or {})

    def never(*_: Any, **__: Any) -> ProcessResult:
        raise AssertionError("xpk was started")

    assert isinstance(through(tools, never)(cluster, plan, "mark"), ExistingObject)
    assert len(cluster_api.server.asked(CREATE)) == 1


def test_another_jobset_under_the_name_is_not_reported_as_created(
    cluster_api: ClusterApi, tools: dict[str, str], planned: Plans
) -> None:
    cluster, plan = cluster_api.connect(), planned()
    other: dict[str, Any] = {**(plan.manifest or {}), "spec": {"replicatedJobs": []}}
    through_xpk = through(tools, ended(1, doing=lambda: cluster.create_jobset(other)))
    assert isinstance(through_xpk(cluster, plan, "mark"), ExistingObject)


def test_xpk_gets_only_the_environment_that_gcloud_needs(tmp_path: Path) -> None:
    user_environment = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "CLOUDSDK_CORE_PROJECT": "p",
        "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
        "https_proxy": "http://proxy",
        "HF_TOKEN": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE": "/key.json",
        "GOOGLE_API_KEY": "x",
        "KUBECONFIG": "/home/me/.kube/config",
        "XPK_CACHE_HOME": "/x",
        "SUB_SLICING_ENABLED": "true",
    }
    xpk_environment = environment(user_environment, scratch=tmp_path)
    assert {name: xpk_environment[name] for name in user_environment.keys() & xpk_environment.keys()} == {
        "PATH": "/bin",
        "HOME": str(tmp_path),
        "CLOUDSDK_CORE_PROJECT": "p",
        "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE": "/key.json",
        "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
        "https_proxy": "http://proxy",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
    }
    assert xpk_environment["CLOUDSDK_CONFIG"] == "/home/me/.config/gcloud"
    assert xpk_environment["TELEMETRY_ENABLED"] == xpk_environment["DEPENDENCY_AUTO_DOWNLOAD"] == "false"


def test_a_place_without_gke_is_refused() -> None:
    plan = shown()
    with pytest.raises(Refused, match="GKE"):
        refuse_losses(replace(plan, run=replace(plan.run, place=None)))
