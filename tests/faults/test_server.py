"""The front of the API server injects each fault as its name says; streams pass line by line and break where told."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
import urllib3
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

from tests.cluster.test_cluster import sent_to
from tests.control_plane.api import Cluster
from tests.fakes.clusters import reaching
from tests.faults.answer import Answer
from tests.faults.fault import Seen
from tests.faults.server import Front, Unanswered, served

BODY = {"items": list(range(100))}
LINES = [f"line {i}\n".encode() for i in range(5)]


class Behind:
    """Answers, and counts what it did."""

    def __init__(self) -> None:
        self.done = 0
        self.next_line = threading.Semaphore(0)

    def __call__(self, request: Seen) -> Answer:
        self.done += 1
        if "gone" in request.path:
            raise Unanswered
        return Answer(200, None, stream=self.lines()) if "watch" in request.query else Answer(200, BODY)

    def lines(self) -> Iterator[bytes]:
        for line in LINES:
            assert self.next_line.acquire(timeout=60)
            yield line


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def front(behind: Behind) -> Iterator[Front]:
    with served(Front(behind=behind)) as new_front:
        yield new_front


def ask(front: Front, path: str = "/x", *, timeout_s: float = 60.0, **settings: Any) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager(retries=False, timeout=timeout_s) as pool:
        return pool.request("GET", front.url + path, **settings)


def test_the_front_passes_a_request_and_its_answer_through(front: Front, behind: Behind) -> None:
    answer = ask(front, "/a?b=c")
    assert (answer.status, answer.json(), behind.done) == (200, BODY, 1)
    (request,) = front.asked("^GET /a.*b=c")
    assert (request.target, request.query) == ("/a?b=c", {"b": "c"})


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("action", "failure", "done"),
    [
        ("cut-before", ProtocolError, 0),
        ("cut-after", ProtocolError, 1),
        ("reset-before", ProtocolError, 0),
        ("reset-after", ProtocolError, 1),
        ("hang-before", ReadTimeoutError, 0),
        ("hang-after", ReadTimeoutError, 1),
        ("short", ProtocolError, 1),
    ],
)
def test_a_request_without_an_answer_fails_and_the_next_one_succeeds(
    front: Front, behind: Behind, action: Any, failure: type[HTTPError], done: int
) -> None:
    front.fail("/x", action=action)
    with pytest.raises(failure) as caught:
        ask(front, timeout_s=0.5 if action.startswith("hang") else 60.0)
    assert behind.done == done
    assert ("reset by peer" in str(caught.value)) == action.startswith("reset")
    assert ask(front).status == 200  # once


def test_a_broken_answer_is_truncated_json_or_gzip(front: Front) -> None:
    front.fail("/x", action="broken-json")
    front.fail("/x", action="broken-gzip")
    plain, packed = ask(front), ask(front, decode_content=False)
    assert plain.data == json.dumps(BODY).encode()[: len(plain.data)]
    assert packed.headers["Content-Encoding"] == "gzip"
    with pytest.raises(EOFError):
        gzip.decompress(packed.data)


def test_a_fault_hits_only_the_requests_chosen_by_skip_and_times(front: Front) -> None:
    front.fail("/y", code=429, retry_after="7", skip=1, times=2)
    answers = [ask(front, "/y") for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 429, 429, 200]
    assert answers[1].headers["Retry-After"] == "7"
    assert answers[1].json()["code"] == 429


def test_the_actions_of_a_fault_run_before_and_after_its_request(front: Front, behind: Behind) -> None:
    order: list[Any] = []
    front.fail("/x", code=0, do=lambda: order.append(behind.done), then=lambda: order.append(behind.done))
    assert (ask(front).status, order) == (200, [0, 1])


def test_a_skewed_clock_shifts_the_date_of_answers(front: Front) -> None:
    front.skew_s = -3600
    off = parsedate_to_datetime(ask(front).headers["Date"]).timestamp() - time.time()
    assert abs(off + 3600) < 60


def test_a_proxy_with_a_silent_backend_is_silent(front: Front) -> None:
    with pytest.raises(ProtocolError):
        ask(front, "/gone")


def streamed(front: Front) -> Iterator[bytes]:
    with urllib3.PoolManager(retries=False, timeout=60) as pool:
        yield from pool.request("GET", f"{front.url}/x?watch=1", preload_content=False).stream(1)


def test_a_stream_passes_line_by_line(front: Front, behind: Behind) -> None:
    stream, got = streamed(front), b""
    for line in LINES:
        behind.next_line.release()  # the next is not written before this one has come
        while not got.endswith(line):
            got += next(stream)
    assert (list(stream), got) == ([], b"".join(LINES))


@pytest.mark.parametrize(
    ("how", "got"),
    [
        ({"after_lines": 2}, b"line 0\nline 1\n"),
        ({"after_bytes": 10}, b"line 0\nlin"),
        ({"after_lines": 0}, b""),
    ],
    ids=str,
)
@pytest.mark.parametrize("action", ["stream-cut", "stream-end", "stream-gone"])
def test_a_stream_breaks_after_the_chosen_lines_or_bytes(
    front: Front, behind: Behind, action: Any, how: dict[str, int], got: bytes
) -> None:
    behind.next_line.release(len(LINES))
    front.fail("watch", action=action, **how)
    parts: list[bytes] = []
    if action == "stream-cut":
        with pytest.raises(ProtocolError):
            parts.extend(streamed(front))
        assert b"".join(parts) in (got, b"")
        return
    parts.extend(streamed(front))
    content = b"".join(parts)
    assert content[: len(got)] == got
    remainder = content[len(got) :]
    assert remainder == b"" if action == "stream-end" else json.loads(remainder)["object"]["code"] == 410


@pytest.mark.cluster
def test_a_real_watch_delivers_events_and_410_gone(real_cluster: Cluster, tmp_path: Path) -> None:
    with reaching(real_cluster, tmp_path) as api:
        path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{api.namespace}/jobsets?watch=true"
        headers = {"Authorization": f"Bearer {api.token}"}
        api.server.fail("watch", action="stream-gone", after_lines=1)
        with urllib3.PoolManager(retries=False, timeout=120) as pool:
            stream = pool.request("GET", api.server.url + path, headers=headers, preload_content=False)
            api.connect().create_jobset(sent_to(api))
            first, last = (json.loads(line) for line in b"".join(stream.stream()).splitlines())
        assert (first["type"], first["object"]["kind"]) == ("ADDED", "JobSet")
        assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
