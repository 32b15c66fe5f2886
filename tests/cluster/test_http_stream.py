"""A response that continues, and ends when another thread interrupts it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
import urllib3

from xsft.cluster.http import Stream

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TORN = b"8\r\none\ntorn\r\n"
END = b"0\r\n\r\n"


@contextmanager
def streaming(*parts: bytes | threading.Event) -> Iterator[Stream]:
    """The stream of a server that sends these parts and closes the connection; it waits for each event."""
    with socket.create_server(("127.0.0.1", 0)) as server, urllib3.PoolManager() as pool:
        thread = threading.Thread(target=_send, args=(server, parts), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        stream = Stream(pool.request("GET", url, preload_content=False, retries=False))
        yield stream
        stream.close()
        thread.join()


def test_interrupting_an_ended_stream_does_nothing() -> None:
    """The last line has no newline: it is returned after the connection left the stream."""
    with streaming(HEAD, TORN, END) as stream:
        lines = stream.lines()
        assert [next(lines), next(lines)] == [b"one", b"torn"]
        stream.interrupt()
        assert list(lines) == []


def test_a_line_is_given_as_soon_as_it_arrives() -> None:
    came = threading.Event()
    with streaming(HEAD, TORN, came, b"b\r\n off\n\ntwo\r\n\r\n", END) as stream:
        lines = stream.lines()
        assert next(lines) == b"one"
        came.set()
        assert list(lines) == [b"torn off", b"", b"two\r"]


def test_a_stream_that_is_cut_raises_incomplete_answer() -> None:
    """The last line may be incomplete, so it is not returned."""
    came: list[bytes] = []
    with streaming(HEAD, TORN, b"9\r\n off\n") as stream, pytest.raises(OSError, match=r"^incomplete answer$"):
        came.extend(stream.lines())
    assert came == [b"one"]


def _send(server: socket.socket, parts: Iterable[bytes | threading.Event]) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        for part in parts:
            if isinstance(part, bytes):
                connection.sendall(part)
            else:
                assert part.wait(10)
