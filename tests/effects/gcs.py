"""A stand-in for Cloud Storage on loopback: the reading half of its JSON API, over a mapping of names to bytes."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Bucket:
    """What the server holds, and what it was asked."""

    objects: Mapping[str, bytes]
    name: str = "my-bucket"
    status: int = 200
    """Another status is the answer to everything."""
    delay_s: float = 0
    asked: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def bytes_sent(self) -> int:
        return sum(int(line.rpartition(" ")[2]) for line in self.asked)


@contextmanager
def serving(bucket: Bucket) -> Iterator[Bucket]:
    handler = type("Handler", (_Handler,), {"bucket": bucket})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    bucket.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    bucket: Bucket

    def do_GET(self) -> None:
        if self.bucket.delay_s:
            time.sleep(self.bucket.delay_s)
        url = urlsplit(self.path)
        found = re.fullmatch(r"(?:/download)?/storage/v1/b/([^/]+)/o(?:/(.+))?", url.path)
        if self.bucket.status != 200:
            self._answer(self.bucket.status, b'{"error": {"message": "no"}}')
        elif found is None or found.group(1) != self.bucket.name:
            self._answer(404, b'{"error": {"message": "The specified bucket does not exist."}}')
        elif found.group(2) is None:
            self._answer(200, self._listing(parse_qs(url.query)))
        else:
            self._object(unquote(found.group(2)))

    def _listing(self, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        below = [name[len(prefix) :] for name in self.bucket.objects if name.startswith(prefix)]
        files = [{"name": prefix + name} for name in below if "/" not in name]
        folders = sorted({prefix + name.partition("/")[0] + "/" for name in below if "/" in name})
        return json.dumps({"kind": "storage#objects", "items": files, "prefixes": folders}).encode()

    def _object(self, name: str) -> None:
        content = self.bucket.objects.get(name)
        if content is None:
            return self._answer(404, b"No such object")
        first, last = (int(n) for n in self.headers["Range"].removeprefix("bytes=").split("-"))
        if first >= len(content):
            return self._answer(416, b"")
        part = content[first : last + 1]
        return self._answer(206, part, range_=f"bytes {first}-{first + len(part) - 1}/{len(content)}")

    def _answer(self, status: int, body: bytes, range_: str = "") -> None:
        self.bucket.asked.append(f"{self.path} {len(body)}")
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if range_:
            self.send_header("Content-Range", range_)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests stay quiet."""
