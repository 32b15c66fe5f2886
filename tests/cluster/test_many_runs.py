"""`xsft status` of a tenth of the benchmark's runs (tests/bench/bench_status.py): what it asks, keeps and tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import bench_status, many_runs, measured, recorded
from tests.bench.bench_status import LISTS, RSS_MIB, Bench, Command
from tests.bench.many_runs import NAMESPACE
from tests.cluster.api import Cluster

pytestmark = pytest.mark.cluster
RUNS = 100
GENEROUS = 8.0
"""Times kubectl's seconds. xsft tells more, and is not written in Go."""


@pytest.fixture(scope="module")
def bench(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("many")
    real_cluster.create_namespace(NAMESPACE)
    try:
        runs = recorded.record(real_cluster, NAMESPACE)
    finally:
        real_cluster.delete_namespace(NAMESPACE)
    programs = real_cluster.layout.tools
    with (
        many_runs.serving(folder / "many", runs, count=RUNS, programs=programs) as many,
        bench_status.asking(many, folder) as asking,
    ):
        assert many.pods > 60 * RUNS
        yield asking


def test_status_of_many_runs_is_a_few_lists(bench: Bench, tmp_path: Path) -> None:
    ours, *_, jobsets, _, _ = bench_status.commands(bench.many, xpk=tmp_path)
    assert (ours.name, jobsets.name) == ("xsft status --all --json", "kubectl get jobsets -o json")
    runs = json.loads(bench.count(ours).stdout)["runs"]
    bench_status.check(runs, runs=RUNS, proven=True)
    assert ours.lists <= LISTS
    assert sum(run["progress"]["read"] for run in runs) == 50, "34 active ones, and 16 that are over"
    assert not any(run["unread"] for run in runs)
    for _ in range(3):
        for command in (ours, jobsets):
            bench.measure(command)
    assert ours.cost.rss_mib < RSS_MIB
    assert ours.cost.wall_s < GENEROUS * jobsets.cost.wall_s


def test_what_is_counted_as_a_list(bench: Bench, tmp_path: Path) -> None:
    """kubectl pages through a kind by 500, and xsft does not: the benchmark's counts are of the same thing."""
    some = ("-l", f"batch.kubernetes.io/job-completion-index in ({', '.join(map(str, range(10)))})")  # of 64 of a slice
    pods = Command("pods", (*bench_status.kubectl(bench.many), "get", "pods", "-o", "name", *some))
    found = len(bench.count(pods).stdout.splitlines())
    assert found > 500
    assert pods.lists == -(-found // 500)
    with measured.counting(bench.many.cluster, tmp_path) as asked:
        name = f"pods/{bench.many.mcjax}"
        measured.run(
            (*bench_status.kubectl(bench.many), "get", "--ignore-not-found", name),
            env={**bench.env, "KUBECONFIG": str(asked.kubeconfig)},
            cwd=tmp_path,
        )
    assert asked.seen
    assert asked.lists == []
