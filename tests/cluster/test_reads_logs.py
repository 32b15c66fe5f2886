"""Requests for logs and the meaning of their responses; nothing is sent."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.cluster.answers import FORBIDDEN, LOST, UNSENT, Answers
from xsft.base.errors import Unreachable
from xsft.cluster.answers import LostAnswer
from xsft.cluster.http import Stream
from xsft.cluster.reads import MAX_BYTES, ContainerLogRequest, open_log, read_log

WANTED = ContainerLogRequest(namespace="team", pod="a-0")
NOT_STARTED = (400, {"message": "container is waiting to start"})
NONE = (404, {"message": 'pods "a-0" not found', "details": {"name": "a-0", "kind": "pods"}})
BUSY, BROKEN = (429, {"message": "busy"}), (502, {"message": "bad gateway"})


def query(answers: Answers) -> dict[str, str]:
    path = urlsplit(answers.paths[-1])
    assert path.path == "/api/v1/namespaces/team/pods/a-0/log"
    return dict(parse_qsl(path.query))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"limitBytes": str(MAX_BYTES)}),
        ({"container": "c"}, {"container": "c", "limitBytes": str(MAX_BYTES)}),
        ({"since": "2026-11-21T10:00:00Z"}, {"sinceTime": "2026-11-21T10:00:00Z", "limitBytes": str(MAX_BYTES)}),
        ({"tail": 0}, {"tailLines": "0"}),
        ({"previous": True}, {"previous": "true", "limitBytes": str(MAX_BYTES)}),
    ],
)
def test_a_log_request_carries_its_options(options: dict[str, Any], expected: dict[str, str]) -> None:
    usual = {"timestamps": "true", "follow": "false", "previous": "false"}
    answers = Answers((200, b""), (200, b""))
    container_log_request = ContainerLogRequest(namespace="team", pod="a-0", **options)
    assert read_log(answers.api, container_log_request) == ()
    assert query(answers) == {**usual, **expected}
    opened = open_log(answers.api, container_log_request, read_timeout_s=1.0)
    assert isinstance(opened, Stream)
    expected.pop("limitBytes", None)
    assert query(answers) == {**usual, **expected, "follow": "true"}
    assert answers.accepted == ["*/*", "*/*"]


def test_log_lines_end_only_at_newlines() -> None:
    content = b"2026-11-21T10:00:00Z one\r 50%\r100%\n2026-11-21T10:00:01Z \xff\n2026-11-21T10:00:02Z torn"
    lines = read_log(Answers((200, content)).api, WANTED)
    assert lines is not None
    assert [(line.at, line.text) for line in lines] == [
        ("2026-11-21T10:00:00Z", "one\r 50%\r100%"),
        ("2026-11-21T10:00:01Z", "\ufffd"),
        ("2026-11-21T10:00:02Z", "torn"),
    ]


@pytest.mark.parametrize("answer", [NONE, NOT_STARTED])
def test_a_missing_or_unstarted_pod_has_no_log(answer: Any) -> None:
    assert read_log(Answers(answer).api, WANTED) is None
    assert open_log(Answers(answer).api, WANTED, read_timeout_s=1.0) is None


@pytest.mark.parametrize("answer", [LOST, UNSENT, BUSY, BROKEN, (500, {"message": "etcd"})])
def test_open_log_returns_a_transient_error(answer: Any) -> None:
    answers = Answers(answer)
    assert isinstance(open_log(answers.api, WANTED, read_timeout_s=1.0), LostAnswer | Unreachable)
    assert answers.left == []


@pytest.mark.parametrize("answer", [FORBIDDEN, (401, {"message": "no"}), (302, b"")])
def test_open_log_raises_a_permanent_error(answer: Any) -> None:
    with pytest.raises(Unreachable) as caught:
        open_log(Answers(answer).api, WANTED, read_timeout_s=1.0)
    assert {problem.again for problem in caught.value.problems} <= {"never", "unsure"}
    with pytest.raises(Unreachable):
        read_log(Answers(answer).api, WANTED)
