"""Serves HTTP on loopback, in a thread of the test, for the stand-ins of other services."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def serving_http(handler: type[BaseHTTPRequestHandler], *, host: str = "127.0.0.1", **attributes: Any) -> Iterator[str]:
    """Yield the address, `http://host:port`. Each request's handler has the attributes, and prints no log."""
    handler_class = type(handler.__name__, (handler,), {"log_message": lambda *_: None, **attributes})
    server = ThreadingHTTPServer((host, 0), handler_class)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
