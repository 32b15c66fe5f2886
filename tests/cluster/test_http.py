"""One request and its result: every option that is sent, and every way to get no answer."""

from __future__ import annotations

import gzip
import json
from http import client
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from urllib3 import HTTPConnectionPool, HTTPResponse, Timeout, exceptions

from xsft.cluster.access import Access
from xsft.cluster.answers import LostAnswer, lost_answer, read_object
from xsft.cluster.http import PART, Credentials, Http, Stream

ACCESS = Access(context="lab", kubeconfig=(Path("config"),), gke=False)
PAGE = b" <html>Sign in</html>"
POOL = HTTPConnectionPool("lab.example")
ONCE = {"preload_content": False, "redirect": False, "retries": False}
LATE = exceptions.ConnectTimeoutError(POOL, "timed out")


class Server:
    """Answers each request with this, and remembers them."""

    def __init__(self, status: int = 200, content: bytes = b"{}", **headers: str) -> None:
        self.given = (status, content, {name.replace("_", "-"): value for name, value in headers.items()})
        self.asked: list[dict[str, Any]] = []
        self.answers: list[HTTPResponse] = []

    def request(self, method: str, url: str, *, timeout: Timeout, **options: Any) -> HTTPResponse:
        timeouts_s = (timeout.connect_timeout, timeout.read_timeout)
        self.asked.append({"method": method, "url": url, "timeouts_s": timeouts_s, **options})
        status, content, headers = self.given
        answer = HTTPResponse(BytesIO(content), headers, status, preload_content=False)
        self.answers.append(answer)
        return answer


class Broken(Server):
    def __init__(self, failed: Exception) -> None:
        super().__init__()
        self.failed = failed

    def request(self, method: str, url: str, **options: Any) -> HTTPResponse:
        raise self.failed


def http(server: Server) -> Http:
    pool: Any = server
    return Http("https://lab.example/", access=ACCESS, login=Credentials, pool=lambda *_: pool, timeouts_s=(2.0, 30.0))


def asked(server: Server, body: Any = None) -> Any:
    return http(server).request("POST", "/a?b=c", body=body, accept="application/x", read=read_object)


def test_a_request_carries_its_body_headers_and_timeouts() -> None:
    server = Server()
    assert asked(server, {"é": None}).body == {}
    (request,) = server.asked
    assert json.loads(request.pop("body")) == {"é": None}
    accepted = {"Accept": "application/x", "Accept-Encoding": "gzip", "Content-Type": "application/json"}
    assert request == {
        "method": "POST",
        "url": "https://lab.example/a?b=c",
        "headers": {**accepted, "User-Agent": "xsft"},
        "timeouts_s": (2.0, 30.0),
        **ONCE,
    }
    asked(server)
    assert server.asked[-1]["body"] is None


def test_a_stream_carries_its_headers_and_timeouts() -> None:
    server = Server(content=b"one\ntwo")
    stream = http(server).opened("/log", read_timeout_s=7.0)
    (request,) = server.asked
    assert request == {
        "method": "GET",
        "url": "https://lab.example/log",
        "headers": {"Accept": "*/*", "User-Agent": "xsft"},
        "body": None,
        "timeouts_s": (2.0, 7.0),
        **ONCE,
    }
    assert isinstance(stream, Stream)
    assert list(stream.lines()) == [b"one", b"two"]


def test_close_closes_a_stream_and_interrupt_shuts_it_down() -> None:
    server = Server(content=b"one\ntwo")
    stream = http(server).opened("/log", read_timeout_s=7.0)
    assert isinstance(stream, Stream)
    stream.close()
    assert server.answers[0].closed
    ended = Interrupted()
    Stream(ended).interrupt()  # type: ignore[arg-type]
    assert ended.shut_down


class Interrupted:
    shut_down = False

    def shutdown(self) -> None:
        self.shut_down = True


def test_a_refused_stream_is_a_reply() -> None:
    reply = http(Server(403, b'{"message": "no"}')).opened("/log", read_timeout_s=7.0)
    assert not isinstance(reply, Stream | LostAnswer)
    assert (reply.status, reply.body) == (403, {"message": "no"})
    broken = http(Broken(LATE)).opened("/log", read_timeout_s=7.0)
    assert isinstance(broken, LostAnswer)
    assert "https://lab.example" in broken.reason


@pytest.mark.parametrize("status", [200, 201, 299])
def test_a_successful_response_is_read_completely(status: int) -> None:
    server = Server(status, b"{" + b" " * 3 * PART + b"}", Date="Sat, 21 Nov 2026 10:00:00 GMT")
    one = http(server)
    httpresponse = one.request("GET", "/", body=None, accept="*/*", read=lambda content: content[:1])
    assert not isinstance(httpresponse, LostAnswer)
    assert (httpresponse.status, httpresponse.body, httpresponse.retry_after_s) == (status, b"{", None)
    assert server.answers[0].read() == b""  # so that the connection is used again
    assert one.ahead_s != 0.0


@pytest.mark.parametrize(
    ("status", "content", "body"),
    [
        (500, b'{"message": "etcd"}', {"message": "etcd"}),
        (502, PAGE, "(a web page instead of an answer)"),
        (401, PAGE, "(a web page instead of an answer)"),
        (400, b"no such thing", "no such thing"),
        (404, b"\xff", "\ufffd"),
        (403, b"[1]", [1]),
    ],
)
def test_the_body_of_an_error_is_its_json_or_text(status: int, content: bytes, body: Any) -> None:
    reply = asked(Server(status, content))
    assert (reply.status, reply.body) == (status, body)


def test_a_response_keeps_its_retry_after() -> None:
    assert asked(Server(429, b"{}", Retry_After="3")).retry_after_s == 3.0


def test_a_compressed_answer_is_read() -> None:
    assert asked(Server(content=gzip.compress(b'{"a": 1}'), Content_Encoding="gzip")).body == {"a": 1}


def test_a_compressed_answer_in_chunks_is_read() -> None:
    """An API server compresses large answers, and sends them without their length."""
    content = gzip.compress(json.dumps({"a": "x" * 3 * PART}).encode())
    server = Server()
    server.request = lambda *_, **__: in_chunks(content[:20], content[20:])  # type: ignore[method-assign]
    assert asked(server).body == {"a": "x" * 3 * PART}


def in_chunks(*chunks: bytes) -> HTTPResponse:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))

    class Socket:
        def makefile(self, _mode: str) -> BytesIO:
            return BytesIO(head + body)

    received = client.HTTPResponse(Socket())  # type: ignore[arg-type]
    received.begin()
    return HTTPResponse(received, dict(received.headers), received.status, preload_content=False)


def test_a_redirect_is_not_followed() -> None:
    found = asked(Server(302, b"{}"))
    assert isinstance(found, LostAnswer)
    assert found.id == "not-served"


@pytest.mark.parametrize("status", [200, 404, 500])
def test_an_incomplete_response_is_lost_and_may_be_retried(status: int) -> None:
    found = asked(Server(status, b' {"items": ['))
    assert isinstance(found, LostAnswer)
    assert (found.id, found.sent, found.again) == ("unreachable", True, "helps")
    assert found.reason == "The cluster (context lab) sent an incomplete answer: its JSON ends early."
    assert "proxies" in found.fix


DISTRUST = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "certificate verify failed", "doesn't match")


@pytest.mark.parametrize("words", DISTRUST)
def test_an_untrusted_certificate_is_not_retried(words: str) -> None:
    found = asked(Broken(exceptions.SSLError(f"a {words} b")))
    assert (found.id, found.sent, found.again) == ("tls", False, "unsure")
    assert found.reason.startswith("The TLS connection to the cluster (context lab, https://lab.example) failed: ")
    assert "certificate-authority-data" in found.fix


@pytest.mark.parametrize(
    ("failed", "is_sent", "fix"),
    [
        (exceptions.NewConnectionError(POOL, "refused"), False, "kubectl --context lab version"),
        (LATE, False, "kubectl --context lab version"),
        (exceptions.ProxyError("no", OSError()), False, "HTTPS_PROXY, NO_PROXY, proxy-url of the context lab"),
        (exceptions.ReadTimeoutError(POOL, "/", "timed out"), True, "kubectl --context lab version"),
        (exceptions.ProtocolError("Connection aborted."), True, "kubectl --context lab version"),
        (exceptions.SSLError("EOF occurred in violation of protocol"), True, "kubectl --context lab version"),
        (ConnectionResetError("reset"), True, "kubectl --context lab version"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_errors_before_sending_count_as_not_sent(failed: Exception, is_sent: bool, fix: str) -> None:
    found = asked(Broken(failed))
    assert isinstance(found, LostAnswer)
    assert (found.id, found.sent, found.again) == ("unreachable", is_sent, "helps")
    assert found.reason.startswith("The cluster (context lab, https://lab.example) cannot be reached: ")
    assert fix in found.fix


def test_a_token_in_an_error_is_hidden() -> None:
    token = "hf_" + "Ab1" * 12
    said = lost_answer(OSError(f"GET /?token={token}"), ACCESS, host="h")
    assert token not in said.reason


def test_read_object_refuses_json_that_is_no_object() -> None:
    assert read_object(b'{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match="object"):
        read_object(b"[]")
