"""Questions to a cluster: how long they are asked, and what their answers tell beside what was asked."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import IncompleteRead
from pathlib import Path

import pytest
from urllib3.exceptions import ProtocolError

from tests.fakes.clusters import ClusterApi
from tests.fakes.kubeapi import write_kubeconfig
from tests.faults.answer import Answer
from tests.faults.server import Front, served
from tests.replacing import replace
from xsft.effects.cluster.api import Patience
from xsft.effects.cluster.cluster import connect_context
from xsft.effects.cluster.stream import Stream
from xsft.effects.machine import clock
from xsft.errors import Unreachable


def test_no_try_begins_after_it_was_given_up() -> None:
    slept: list[float] = []
    patience = Patience(tries=9, first_wait_s=0.1, sleep=slept.append)
    assert patience.retries().again()
    assert not replace(patience, give_up_s=-1.0).retries().again()
    assert slept == [0.1]


def test_silence_is_asked_again_only_until_then(cluster_api: ClusterApi, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s = 0.0

    def pause(_seconds: float) -> None:
        nonlocal passed_s
        passed_s += 0.5

    monkeypatch.setattr(clock, "monotonic", lambda: passed_s)
    cluster_api.server.fail(".", action="hang-before", times=9)
    patience = Patience(tries=9, first_wait_s=0.01, give_up_s=0.4, read_timeout_s=0.1, sleep=pause)
    cluster = connect_context(cluster_api.context, here=cluster_api.here, patience=patience)
    with pytest.raises(Unreachable, match="timed out"):
        cluster.list_jobsets(namespace=cluster_api.namespace)
    assert len(cluster_api.server.seen) == 2


def test_an_answer_proves_the_server_alive_and_gives_its_time(cluster_api: ClusterApi) -> None:
    cluster = cluster_api.connect()
    assert (cluster.heard_at, cluster.ahead_s) == (float("-inf"), 0.0)
    began = clock.monotonic()
    cluster.list_jobsets(namespace=cluster_api.namespace)
    assert began < cluster.heard_at <= clock.monotonic()
    assert cluster.ahead_s == 0.0
    for days in (1, -1):
        cluster_api.server.skew_s = days * 86_400.0
        cluster.list_jobsets(namespace=cluster_api.namespace)
        assert abs(cluster.ahead_s - days * 86_400.0) < 30
    heard = cluster.heard_at
    cluster_api.server.fail(".", action="cut-before", times=9)
    with pytest.raises(Unreachable):
        cluster.list_jobsets(namespace=cluster_api.namespace)
    assert cluster.heard_at == heard


@pytest.mark.parametrize("code", [400, 403, 404, 405, 302])
def test_a_web_page_is_no_answer_of_a_cluster(tmp_path: Path, code: int) -> None:
    """Its server does not lack JobSet, nor does it forbid: it was not asked."""
    page = Answer(code, " <html>Sign in</html>", {"Content-Type": "text/html"})
    with served(Front(behind=lambda _: page)) as front:
        api = ClusterApi(kubeconfig=write_kubeconfig(tmp_path / "config", server=front.url, token="t"))
        with pytest.raises(Unreachable, match="not as a Kubernetes API server") as caught:
            api.connect().list_jobsets(namespace=api.namespace)
    assert caught.value.problem_id == "not-served"
    assert len(front.seen) == 1


class Cut:
    def stream(self, _size: int) -> Iterator[bytes]:
        yield b"one\ntw"
        raise ProtocolError("Connection broken: IncompleteRead(4 bytes read)", IncompleteRead(b"", 4))


def test_a_stream_that_is_cut_says_so_in_words_of_ours() -> None:
    came: list[bytes] = []
    with pytest.raises(OSError, match=r"^incomplete answer$"):
        came.extend(Stream(Cut()).lines())
    assert came == [b"one"]
