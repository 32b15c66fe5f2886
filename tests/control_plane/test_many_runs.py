"""`xsft status` of a few of the benchmark's runs (tests/bench/bench_status.py): what it asks, keeps and tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import bench_status, many_runs, measured, recorded
from tests.bench.bench_status import LISTS, RSS_MIB, Bench, Command
from tests.bench.many_runs import NAMESPACE
from tests.bench.recorded import Recorded
from tests.control_plane.api import Cluster
from tests.control_plane.fixtures import say
from tests.control_plane.tools import Tools

pytestmark = pytest.mark.cluster
RUNS = 30
GENEROUS = 10.0
"""Times kubectl's CPU seconds: xsft tells more, and is not written in Go. bench_status.py bounds the wall time."""


@pytest.fixture(scope="module")
def bench(
    request: pytest.FixtureRequest, cluster_tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Runs of the session's cluster, recorded once for every user."""
    folder = tmp_path_factory.mktemp("many")

    def record() -> tuple[Recorded, ...]:
        cluster: Cluster = request.getfixturevalue("real_cluster")
        cluster.create_namespace(NAMESPACE)
        try:
            return recorded.record(cluster, NAMESPACE)
        finally:
            cluster.delete_namespace(NAMESPACE)

    data = many_runs.saved(count=RUNS, programs=cluster_tools, progress=say, record=record)
    with (
        many_runs.serving(folder / "many", data, count=RUNS, programs=cluster_tools) as many,
        bench_status.asking(many, folder) as asking,
    ):
        assert many.pods > 60 * RUNS
        yield asking


def test_status_of_many_runs_is_a_few_lists(bench: Bench, tmp_path: Path) -> None:
    commands = {command.name: command for command in bench_status.commands(bench.many, xpk=tmp_path)}
    ours, jobsets = commands["xsft status --all --json"], commands["kubectl get jobsets -o json"]
    counted, beside = bench.count(ours), bench.count(jobsets)
    runs = json.loads(counted.stdout)["runs"]
    bench_status.check(runs, runs=RUNS, proven=True)
    assert ours.lists <= LISTS
    assert sum(run["progress"]["read"] for run in runs) == 15, "10 active ones, and 5 that are over"
    assert not any(run["unread"] for run in runs)
    assert counted.cost.rss_mib < RSS_MIB
    assert counted.cost.cpu_s < GENEROUS * beside.cost.cpu_s


def test_the_benchmark_counts_each_page_of_a_list_and_no_single_object(bench: Bench, tmp_path: Path) -> None:
    """kubectl pages through a kind by 500, and xsft does not: the benchmark's counts are of the same thing."""
    some = ("-l", f"batch.kubernetes.io/job-completion-index in ({', '.join(map(str, range(32)))})")  # of 64 of a slice
    pods = Command("pods", (*bench_status.kubectl(bench.many), "get", "pods", "-o", "name", *some))
    line_count = len(bench.count(pods).stdout.splitlines())
    assert line_count > 500
    assert pods.lists == -(-line_count // 500)
    with measured.counting(bench.many.cluster, tmp_path) as counter:
        name = f"pods/{bench.many.mcjax}"
        measured.run(
            (*bench_status.kubectl(bench.many), "get", "--ignore-not-found", name),
            env={**bench.env, "KUBECONFIG": str(counter.kubeconfig)},
            cwd=tmp_path,
        )
    assert counter.seen
    assert counter.lists == []
