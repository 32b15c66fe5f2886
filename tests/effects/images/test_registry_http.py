"""One request to a registry: its options, its retries and its response."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from requests import ConnectionError as NoConnection
from requests import RequestException

from tests.replacing import replace
from xsft.effects.images.registry_http import MAX_BYTES, RegistryAnswer, retry_patiently, send

GOOD = RegistryAnswer(status=200, headers={}, content=b"{}", url="https://r/v2/", next=None)
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
PLENTY_S = 1000.0


class Session:
    """Answers with this content, in parts of a MiB, and remembers what it was asked with."""

    def __init__(self, content: bytes = b"{}", links: dict[str, Any] | None = None) -> None:
        self.content, self.links = content, links or {}
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.parts, self.closed = 0, False
        self.status_code, self.headers, self.url = 206, {"A": "b"}, "https://elsewhere/"

    @contextmanager
    def request(self, method: str, url: str, **options: Any) -> Iterator[Session]:
        self.asked.append((method, url, options))
        yield self
        self.closed = True

    def iter_content(self, _size: int) -> Iterator[bytes]:
        for at in range(0, len(self.content), 1 << 20):
            self.parts += 1
            yield self.content[at : at + (1 << 20)]


def test_a_request_carries_its_method_headers_and_timeout() -> None:
    session = Session()
    send(session, "POST", "https://r/v2/", headers={"Accept": "x"})
    options = {"timeout": 10.0, "stream": True, "allow_redirects": False, "headers": {"Accept": "x"}}
    assert session.asked == [("POST", "https://r/v2/", options)]
    send(session, "GET", "https://r/v2/", allow_redirects=True)
    assert session.asked[-1][2] == {"timeout": 10.0, "stream": True, "allow_redirects": True}


def test_a_response_keeps_status_headers_content_and_next_page() -> None:
    session = Session(b"abc", {"next": {"url": "/v2/more"}})
    kept = RegistryAnswer(status=206, headers={"A": "b"}, content=b"abc", url="https://elsewhere/", next="/v2/more")
    assert send(session, "GET", "https://r/") == kept
    assert session.closed
    assert send(Session(), "GET", "https://r/").next is None


def test_a_large_response_is_read_up_to_the_limit() -> None:
    most, over = Session(b" " * MAX_BYTES), Session(b" " * (3 * MAX_BYTES))
    assert len(send(most, "GET", "https://r/").content) == MAX_BYTES
    assert len(send(over, "GET", "https://r/").content) == MAX_BYTES + (1 << 20)
    assert over.parts == 9


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "HTTP 403"),
        (b"<html>no</html>", "HTTP 403"),
        (b"[1]", "HTTP 403"),
        (b'{"errors": null}', "HTTP 403"),
        (b'{"errors": ["no object"]}', "HTTP 403"),
        (b'{"errors": [{"code": "DENIED"}]}', "HTTP 403 DENIED"),
        (b'{"errors": [{"code": "A", "message": "no push"}, {"message": "ask"}]}', "HTTP 403 no push; ask"),
    ],
)
def test_the_error_message_of_a_registry_is_extracted(content: bytes, said: str) -> None:
    assert replace(GOOD, status=403, content=content).said == said


def asked(
    answers: list[RegistryAnswer | Exception], *, budget_s: float = PLENTY_S
) -> tuple[RegistryAnswer | Exception, list[float]]:
    """Return the result of the request, and the pauses; the last answer is repeated."""
    slept: list[float] = []
    rest = iter(answers)
    last: list[RegistryAnswer | Exception] = []

    def once() -> RegistryAnswer:
        last[:] = [next(rest, answers[-1])]
        if isinstance(last[0], Exception):
            raise last[0]
        return last[0]

    try:
        found = retry_patiently(once, sleep=slept.append, budget_s=budget_s)
    except RequestException as failed:
        return failed, slept
    assert isinstance(found, RegistryAnswer), "an error is raised, not returned"
    return found, slept


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_registry_gets_six_requests_with_growing_pauses(status: int) -> None:
    busy = replace(GOOD, status=status, content=json.dumps(status).encode())
    assert asked([busy]) == (busy, [*PAUSES_S])
    assert asked([busy, busy, GOOD]) == (GOOD, [0.5, 1.0])


@pytest.mark.parametrize("status", [200, 401, 403, 404, 405, 501, 505])
def test_other_statuses_are_returned_without_a_retry(status: int) -> None:
    answer = replace(GOOD, status=status)
    assert asked([answer]) == (answer, [])


def test_a_refused_connection_is_retried_twice() -> None:
    failed = NoConnection("refused")
    assert asked([failed]) == (failed, [0.5, 1.0])
    assert asked([failed, failed, GOOD]) == (GOOD, [0.5, 1.0])


def test_retry_after_lengthens_a_pause_and_never_shortens_it() -> None:
    busy: Callable[[str], RegistryAnswer] = lambda after: replace(GOOD, status=429, headers={"Retry-After": after})  # noqa: E731
    assert asked([busy("7"), busy("0"), GOOD]) == (GOOD, [7.0, 1.0])


def test_pauses_stay_within_the_budget() -> None:
    busy = replace(GOOD, status=503)
    assert asked([busy], budget_s=1.4) == (busy, [0.5])
