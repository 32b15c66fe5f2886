"""With only the rights that docs/guides/clusters.md lists, every request of xsft succeeds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.clusters import ClusterApi
from tests.launch.test_admission import TOKEN, plan_for
from tests.servers import server
from xsft.cluster.exactly_once import CreatedObject
from xsft.launch.admission import examine

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "clusters.md"


def rules() -> list[dict[str, Any]]:
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (role,) = (parsed for parsed in map(yaml.safe_load, blocks) if parsed.get("kind") == "ClusterRole")
    return list(role["rules"])


def test_every_request_succeeds_with_the_listed_rights(cluster_api: ClusterApi) -> None:
    cluster_api.world.grant(rules())
    cluster, run_plan = cluster_api.connect(), plan_for(cluster_api, **TOKEN)
    assert run_plan.manifest is not None
    cluster.create_secret(name="hf", namespace=cluster_api.namespace, data={"token": b"x"})
    assert examine(cluster, run_plan)[1] == ()
    assert cluster.dry_run_jobs(cluster.dry_run_jobset(run_plan.manifest)) == ()
    assert cluster.dry_run_pods(run_plan.manifest) == ()
    assert isinstance(cluster.create_jobset(run_plan.manifest), CreatedObject)
    examine(cluster, plan_for(cluster_api, queue="nosuch", priority="low"))
    served = server(namespace=cluster_api.namespace)
    for body in (served.manifest, *served.dependents):
        assert isinstance(cluster.servers.create(body), CreatedObject)
        assert cluster.servers.get(body)
    (seen,) = cluster.reads.servers(namespace=cluster_api.namespace).objects
    assert cluster.servers.delete(name=seen.name, namespace=seen.namespace, uid=seen.uid) == "deleted"


def test_missing_optional_rights_are_warnings(cluster_api: ClusterApi) -> None:
    cluster_api.world.grant(rules()[:1])
    cluster, run_plan = cluster_api.connect(), plan_for(cluster_api, **TOKEN)
    assert run_plan.manifest is not None
    dry_run = (*cluster.dry_run_jobs(run_plan.manifest), *cluster.dry_run_pods(run_plan.manifest))
    problems = (*examine(cluster, run_plan)[1], *dry_run)
    assert {p.severity for p in problems} == {"warning", "note"}
    assert {"cluster-not-read", "pods-not-checked"} <= {p.id for p in problems}
    assert isinstance(cluster.create_jobset(run_plan.manifest), CreatedObject)
