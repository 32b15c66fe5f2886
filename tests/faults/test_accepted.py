"""The server accepts what xsft accepts: workloads at the limits of each field, rendered by the real xpk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.control_plane.api import Cluster
from tests.fakes.clusters import ClusterApi, reaching
from tests.stories import ROOT, facts_for, plans_of
from xsft.base.problems import errors_in
from xsft.checks.environment import MAX_MANIFEST_BYTES
from xsft.cluster.exactly_once import CreatedObject
from xsft.planning.planner import make_intent
from xsft.planning.steps import Plan
from xsft.spec.explain import read_spec
from xsft.spec.yamltext import load_yaml

pytestmark = [pytest.mark.cluster, pytest.mark.contract]

ENDS: Mapping[str, Mapping[str, Any]] = {
    "longest names": {
        "queue": "q" * 63,
        "image": {"ref": f"r.dev/{'p' * 100}:{'t' * 128}", "maxtext": "0.2.5", "pull_secret": "s" * 63},
        "secrets": {"hf_token": {"secret": "h" * 63, "key": "k" * 253}},
    },
    "names of digits and dashes": {
        "queue": "0",
        "name": "a-0--0",
        "image": {"ref": f"r.dev/p@sha256:{'0' * 64}", "maxtext": "0.2.5", "pull_secret": "0-0"},
    },
    "every exit code": {"restarts": {"max": 1000, "on_exit_codes": list(range(1, 256)), "grace_period_s": 86400}},
    "unsorted exit codes, some twice": {"restarts": {"max": 1, "on_exit_codes": [5, 3, 5, 42]}},
    "no restarts, no grace": {"restarts": {"max": 0, "grace_period_s": 0}},
    "ttl of 0": {"ttl_seconds_after_finished": 0},
    "longest ttl": {"ttl_seconds_after_finished": 2**31 - 1},
    "lowest priority": {"priority": "very-low"},
    "spot": {"tpu": {"type": "v6e-256", "num_slices": 2, "capacity": "spot"}},
    "on demand": {"tpu": {"type": "v6e-256", "num_slices": 2, "capacity": "on-demand"}},
    "longest reservation name": {
        "tpu": {
            "type": "v6e-256",
            "num_slices": 2,
            "capacity": "reservation",
            "reservation": f"projects/example.com:my-project/reservations/{'r' * 63}",
        }
    },
    "unusual environment values": {
        "env": {
            "__": "",
            "A" * 200: "x",
            "QUOTES": "\"'`$(HOME) $$ ${X} \\",
            "LINES": "a\nb\r\n\tc",
            "WORDS": "é 😀 \u2028 \x85 # : {} [] %s",
            **{f"V{n}": "v" for n in range(500)},
        }
    },
    "large environment": {"env": {"LARGE": "x" * 120_000}},
}


@pytest.fixture(scope="module")
def plans(xpk_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    """Both modes of each, rendered in one process."""
    stories = {"": "deepseek_ultrachat", ", mcjax": "deepseek_ultrachat_mcjax"}
    intents = {
        f"{case}{mode}": intent_of(story, changes) for case, changes in ENDS.items() for mode, story in stories.items()
    }
    return plans_of(intents, python=xpk_python, scratch=tmp_path_factory.mktemp("renders"))


def intent_of(story: str, changes: Mapping[str, Any]) -> Any:
    document = load_yaml((ROOT / "workloads" / f"{story}.yaml").read_text(encoding="utf-8"))
    spec = read_spec(yaml.safe_dump({**document, **changes}, allow_unicode=True))
    return make_intent(spec, facts_for(spec))


@pytest.fixture(scope="module")
def api(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterApi]:
    with reaching(real_cluster, tmp_path_factory.mktemp("accepted")) as cluster_apis:
        yield cluster_apis


@pytest.mark.parametrize("case", [f"{case}{mode}" for case in ENDS for mode in ("", ", mcjax")])
def test_the_server_accepts_a_jobset_and_its_jobs_at_the_limits_of_each_field(
    api: ClusterApi, plans: dict[str, Plan], case: str
) -> None:
    plan = plans[case]
    assert errors_in(plan.problems) == ()
    assert plan.manifest is not None
    sent_manifest = {**plan.manifest, "metadata": {**plan.manifest["metadata"], "namespace": api.namespace}}
    printed = api.connect().dry_run_jobset(sent_manifest)
    assert api.connect().dry_run_jobs(sent_manifest) == api.connect().dry_run_jobs(printed) == ()


def test_the_server_stores_a_manifest_of_the_largest_size(
    api: ClusterApi, real_cluster: Cluster, xpk_python: Path, tmp_path: Path
) -> None:
    """A dry run does not meet etcd's limit; and Kueue stores the pod templates once more, with the Workload."""
    size = MAX_MANIFEST_BYTES - 3_000
    many = {f"V{n}": "x" * 100_000 for n in range(size // 100_000)}
    intent = intent_of("deepseek_ultrachat", {"env": {**many, "LAST": "x" * (size % 100_000)}})
    plan = plans_of({"largest": intent}, python=xpk_python, scratch=tmp_path)["largest"]
    assert errors_in(plan.problems) == ()
    assert plan.manifest is not None
    name = f"largest-{plan.mode.value}"
    metadata = {**plan.manifest["metadata"], "namespace": api.namespace, "name": name}
    assert isinstance(api.connect().create_jobset({**plan.manifest, "metadata": metadata}), CreatedObject)
    jobs = f"/apis/batch/v1/namespaces/{api.namespace}/jobs?labelSelector=jobset.sigs.k8s.io/jobset-name%3D{name}"
    count = sum(replicated_job["replicas"] for replicated_job in plan.manifest["spec"]["replicatedJobs"])
    real_cluster.wait(lambda: len(real_cluster.api("GET", jobs)["items"]) == count, what=f"{count} Jobs")
