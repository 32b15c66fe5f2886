"""`xsft wait` on a real cluster: it reads its own run alone, and sees its end and its deletion."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.test_cluster import sent_to
from tests.control_plane.api import Cluster
from tests.fakes.clusters import ClusterApi, reaching
from tests.faults.real import RealWorld
from tests.submissions import NAME
from tests.until import until
from xsft.verbs.cli import main

pytestmark = pytest.mark.cluster
RUN = f"{NAME}-mcjax"
LISTS = r"^GET .*/(jobsets|workloads)\?"
LONG_S = 300.0
"""What a test may take on a busy machine."""


@pytest.fixture
def api(real_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterApi]:
    with reaching(real_cluster, tmp_path) as cluster_apis:
        monkeypatch.setenv("KUBECONFIG", str(cluster_apis.kubeconfig))
        monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.chdir(tmp_path)
        cluster_apis.connect().create_jobset(sent_to(cluster_apis))
        cluster_apis.server.seen.clear()
        yield cluster_apis


@pytest.mark.parametrize(("how", "status", "outcome"), [("ends", 6, "ended"), ("is deleted", 8, "lost")])
def test_wait_reads_its_run_alone_until_its_end(
    api: ClusterApi, capsys: pytest.CaptureFixture[str], how: str, status: int, outcome: str
) -> None:
    """Of a deleted run three whole answers without it are read."""
    world = api.world
    assert isinstance(world, RealWorld)
    change: Callable[[], object] = (lambda: world.end(RUN, "Failed")) if how == "ends" else lambda: world.delete(RUN)
    thread = threading.Thread(target=_after_two_reads, args=(api, change))
    thread.start()
    where = ("--context", api.context, "--namespace", api.namespace)
    assert main(("wait", RUN, "--json", "--poll", "1s", "--timeout", f"{LONG_S:g}s", *where)) == status
    thread.join()
    assert json.loads(capsys.readouterr().out)["outcome"] == outcome
    selectors = {list_request.query["labelSelector"] for list_request in api.server.asked(LISTS)}
    assert all(f"in ({RUN})" in selector or "job-uid in" in selector for selector in selectors)


def _after_two_reads(api: ClusterApi, change: Callable[[], object]) -> None:
    until(lambda: len(api.server.asked(LISTS)) >= 4, within_s=LONG_S)
    change()
