"""Requests to a cluster: their retries, their paths, and what a response says besides its content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.answers import FORBIDDEN, Answers
from tests.fakes.clusters import ClusterApi
from tests.fakes.kubeapi import write_kubeconfig
from tests.faults.answer import Answer
from tests.faults.server import Front, served
from xsft.base.amounts import seconds_between
from xsft.base.errors import Unreachable
from xsft.cluster.api import METADATA_ONLY, Api, Patience
from xsft.cluster.cluster import connect
from xsft.cluster.pod_fields import POD, Pod
from xsft.cluster.resources import PODS
from xsft.machine import clock
from xsft.machine.deadline import NEVER, Deadline
from xsft.records.run_cluster import ClusterAddress


def test_pauses_double_until_the_deadline() -> None:
    slept: list[float] = []
    retries = Patience(tries=5, first_wait_s=1.0, sleep=slept.append).retries(NEVER)
    assert [retries.again() for _ in range(5)] == [True] * 4 + [False]
    assert slept == [1.0, 2.0, 4.0, 8.0]
    slept.clear()
    retries = Patience(tries=5, first_wait_s=1.0, sleep=slept.append).retries(Deadline.after(3.0))
    assert [retries.again() for _ in range(3)] == [True, True, False]


ONE, OTHER = ({"metadata": {"name": name}} for name in ("one", "other"))
LIST = (200, {"items": [ONE, OTHER]})


NOON = "2026-11-21T12:00:00Z"


def _pods(api: Api) -> tuple[Pod, ...]:
    return api.listed(PODS, POD, namespace="team", query={"limit": "5"}).objects


@pytest.mark.parametrize(
    ("ask", "path", "expected"),
    [
        (lambda api: api.items(PODS), "/api/v1/pods", (ONE, OTHER)),
        (lambda api: api.items(PODS, namespace="team"), "/api/v1/namespaces/team/pods", (ONE, OTHER)),
        (
            lambda api: api.items(PODS, namespace="team", selector="a=b"),
            "/api/v1/namespaces/team/pods?labelSelector=a%3Db",
            (ONE, OTHER),
        ),
        (
            lambda api: tuple(pod.metadata.name for pod in _pods(api)),
            "/api/v1/namespaces/team/pods?limit=5",
            ("one", "other"),
        ),
    ],
    ids=["all namespaces", "one namespace", "label selector", "query"],
)
def test_items_requests_the_path_of_the_list(ask: Callable[[Api], object], path: str, expected: object) -> None:
    answers = Answers(LIST)
    assert ask(answers.api) == expected
    assert (answers.paths, answers.accepted) == ([path], ["application/json"])
    with pytest.raises(Unreachable, match="You may not list pods"):
        ask(Answers(FORBIDDEN).api)


def test_get_requests_the_path_of_the_object() -> None:
    answers = Answers((200, ONE))
    assert answers.api.get(PODS, name="a", namespace="team", accept=METADATA_ONLY) == ONE
    assert (answers.paths, answers.accepted) == (["/api/v1/namespaces/team/pods/a"], [METADATA_ONLY])
    with pytest.raises(Unreachable, match="You may not get pods a in the namespace team"):
        Answers(FORBIDDEN).api.get(PODS, name="a", namespace="team")


def test_a_silent_server_is_retried_only_within_the_time_of_a_question(
    cluster_api: ClusterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_s = 0.0

    def pause(_seconds: float) -> None:
        nonlocal passed_s
        passed_s += 0.5

    monkeypatch.setattr(clock, "monotonic", lambda: passed_s)
    cluster_api.server.fail(".", action="hang-before", times=9)
    patience = Patience(tries=9, first_wait_s=0.01, question_s=0.9, read_timeout_s=0.1, sleep=pause)
    cluster = connect(ClusterAddress(context=cluster_api.context), here=cluster_api.here, patience=patience)
    with pytest.raises(Unreachable, match="did not answer in time"):
        cluster.list_jobsets(namespace=cluster_api.namespace)
    assert len(cluster_api.server.seen) == 2


def test_a_response_tells_the_clock_skew(cluster_api: ClusterApi) -> None:
    cluster = cluster_api.connect()
    http = cluster.reads.api.http
    cluster.list_jobsets(namespace=cluster_api.namespace)
    assert http.ahead_s == 0.0
    for days in (1, -1):
        cluster_api.server.skew_s = days * 86_400.0
        cluster.list_jobsets(namespace=cluster_api.namespace)
        assert abs(http.ahead_s - days * 86_400.0) < 30
        there = cluster.time_there(NOON)
        assert abs((seconds_between(NOON, there) or 0) - days * 86_400.0) < 30


@pytest.mark.parametrize("code", [302, 403, 404])
def test_a_web_page_is_not_an_answer_of_a_kubernetes_api_server(tmp_path: Path, code: int) -> None:
    """The error says neither that JobSet is missing nor that access is forbidden."""
    page = Answer(code, " <html>Sign in</html>", {"Content-Type": "text/html"})
    with served(Front(behind=lambda _: page)) as front:
        api = ClusterApi(kubeconfig=write_kubeconfig(tmp_path / "config", server=front.url, token="t"))
        with pytest.raises(Unreachable, match="not as a Kubernetes API server") as caught:
            api.connect().list_jobsets(namespace=api.namespace)
    assert caught.value.problem_id == "not-served"
    assert len(front.seen) == 1
