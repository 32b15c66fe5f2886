"""An answer that goes on, and ends while another thread interrupts it."""

from __future__ import annotations

import socket
import threading

import urllib3

from xsft.effects.cluster.stream import Stream

ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\none\ntorn\r\n0\r\n\r\n"


def test_interrupting_what_has_ended_and_is_not_closed_yet_does_nothing() -> None:
    """The last line has no end: it is given when the connection is no longer the stream's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with urllib3.PoolManager() as pool:
            stream = Stream(pool.request("GET", url, preload_content=False, retries=False))
            lines = stream.lines()
            assert [next(lines), next(lines)] == [b"one", b"torn"]
            stream.interrupt()
            assert list(lines) == []
            stream.close()


def _answer(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(ANSWER)
