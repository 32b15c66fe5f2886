"""Errors of a missing network are the same for every library."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.network_words import blames_network, plain_words
from xsft.image.failures import quote

LIBRARY = ("Pool", "HTTPConnection", "HTTPSConnection", "retries", "Caused by", "Errno", "(_ssl.c")


@pytest.fixture
def closing() -> Iterator[int]:
    """A port whose listener closes every connection at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def silent() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def met(url: str, *, timeout_s: float = 5, **more: Any) -> str:
    """Return the error of requests for a URL; the proxies of this machine's environment are not used."""
    with requests.Session() as session:
        session.trust_env = False
        with pytest.raises(requests.RequestException) as failed:
            session.get(url, timeout=timeout_s, **more)
    return str(failed.value)


def test_network_errors_of_requests_become_searchable_words(closing: int, silent: int) -> None:
    """The real library's texts: another release of it may have others."""
    nowhere = "http://xsft-tests-nowhere.invalid/v2/"
    messages = {
        met(nowhere): "the name xsft-tests-nowhere.invalid could not be resolved",
        met("http://127.0.0.1:1/v2/"): "connection refused",
        met(f"http://127.0.0.1:{silent}/v2/", timeout_s=0.2): "timed out",
        met(f"http://127.0.0.1:{closing}/v2/"): "connection closed or reset",
        met(f"https://127.0.0.1:{closing}/v2/"): "the TLS handshake failed",
        met(nowhere, proxies={"http": "http://127.0.0.1:1"}): "the proxy could not be reached",
    }
    assert {text: quote(text) for text in messages} == messages


CERTIFICATE = (
    "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self'))"
)
SHORT = "('Connection broken: IncompleteRead(5 bytes read, 95 more expected)', IncompleteRead())"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"HTTPSConnectionPool(host='r'): {CERTIFICATE}", "this machine does not trust its certificate"),
        ("HTTPConnection(host='r', port=80): [Errno 101] Network is unreachable", "no route to host"),
        (SHORT, "incomplete answer"),
    ],
)
def test_network_errors_that_cannot_be_made_here_become_searchable_words(message: str, expected: str) -> None:
    assert plain_words(message) == expected


@given(st.text())
def test_unknown_text_is_kept_and_text_of_a_library_is_replaced(said: str) -> None:
    assert plain_words(said) == said
    assert not [part for part in LIBRARY if part in plain_words(f"HTTPSConnectionPool(host='r', port=443): {said!a}")]


@pytest.mark.parametrize(
    ("message", "network"),
    [
        ("dial tcp: lookup oauth2.googleapis.com: no such host", True),
        ("HTTPSConnectionPool(host='oauth2.googleapis.com', port=443): Max retries exceeded with url: /token", True),
        ("dial tcp 10.0.0.1:443: i/o timeout", True),
        ("please run: gcloud auth login", False),
        ("invalid_grant: Token has been expired or revoked.", False),
    ],
)
def test_a_login_program_that_reports_a_network_error_is_recognised(message: str, network: bool) -> None:
    assert blames_network(message) is network
