"""The rights that docs/guides/clusters.md lists are the ones xsft uses: with these alone everything works."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from tests.effects.test_admission import TOKEN, plan
from tests.fakes.clusters import ClusterApi
from xsft.effects.admission import examine
from xsft.effects.cluster_create import Created

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "clusters.md"
PLURALS = (
    "jobsets", "jobs", "localqueues", "clusterqueues", "resourceflavors", "priorityclasses", "namespaces", "secrets",
)  # fmt: skip
EVERY = set(product(("get", "list", "create"), PLURALS))


def rules() -> list[dict[str, Any]]:
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (role,) = (parsed for parsed in map(yaml.safe_load, blocks) if parsed.get("kind") == "ClusterRole")
    return list(role["rules"])


def granted(found: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {pair for rule in found for pair in product(rule["verbs"], rule["resources"])}


def test_with_the_listed_rights_everything_works(cluster_api: ClusterApi) -> None:
    cluster_api.server.denied |= EVERY - granted(rules())
    cluster, wanted = cluster_api.connect(), plan(**TOKEN)
    assert wanted.manifest is not None
    cluster.create_secret(name="hf", namespace="default", data={"token": b"x"})
    assert examine(cluster, wanted)[1] == ()
    assert cluster.dry_run_jobs(cluster.dry_run_jobset(wanted.manifest)) == ()
    assert isinstance(cluster.create_jobset(wanted.manifest), Created)
    examine(cluster, plan(queue="nosuch", priority="low"))


def test_without_the_optional_ones_it_warns_and_goes_on(cluster_api: ClusterApi) -> None:
    cluster_api.server.denied |= EVERY - granted(rules()[:1])
    cluster, wanted = cluster_api.connect(), plan(**TOKEN)
    assert wanted.manifest is not None
    problems = (*examine(cluster, wanted)[1], *cluster.dry_run_jobs(wanted.manifest))
    assert {p.severity for p in problems} == {"warning"}
    assert isinstance(cluster.create_jobset(wanted.manifest), Created)
