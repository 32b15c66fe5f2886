"""A stand-in for Cloud Storage on loopback: the part of its JSON API that xsft uses, over a mapping of names to bytes.

Reading (metadata, media, ranges, lists), uploads (media, multipart, resumable) with `ifGenerationMatch`, buckets and
their testPermissions. It fails on demand: any status for everything, or a queue of failures that are used up.
source: cloud.google.com/storage/docs/json_api/v1.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c
import pytest

from tests.fakes.loopback import serving_http

ALL = frozenset(
    {"storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.objects.delete"}
    | {"storage.buckets.get"},
)

PAGE = 1000
"""Names of a list, at most: files and folders together, in their order."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A fault of the next request whose line (`POST /upload/…`) matches."""

    match: str = r"/o[?/]|/iam/"
    """Regular expression, searched for; all but the library's own look at the bucket, which comes at any moment."""
    status: int = 503
    message: str = "not now"
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False
    """The work is done and the connection cut before the answer."""


@dataclass
class Bucket:
    """A bucket's objects, and the requests it received."""

    objects: MutableMapping[str, bytes]
    name: str = "my-bucket"
    status: int = 200
    """Another status is the answer to everything."""
    delay_s: float = 0
    permissions: frozenset[str] = ALL
    settings: Mapping[str, object] = field(default_factory=dict)
    """Further fields of the bucket's own resource."""
    failures: list[Failure] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """`METHOD path bytes-sent`, in order."""
    generations: dict[str, int] = field(default_factory=dict)
    updated: dict[str, str] = field(default_factory=dict)
    """By name, RFC 3339; what is not in it tells no time."""
    sessions: dict[str, tuple[str, str, bytearray]] = field(default_factory=dict)
    """Resumable uploads: id to object name, precondition, what came so far."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    @property
    def bytes_sent(self) -> int:
        return sum(int(line.rpartition(" ")[2]) for line in self.asked)

    @property
    def questions(self) -> list[str]:
        """`asked` without the look at the bucket that google-cloud-storage takes in a thread of its own."""
        return [line for line in self.asked if not re.search(r"/b/[^/?]+\?projection=noAcl", line)]

    @property
    def changes(self) -> list[str]:
        return [line for line in self.asked if not line.startswith("GET ")]

    def store(self, name: str, content: bytes, *, precondition: str) -> int:
        """The new generation; 0 where the precondition does not hold."""
        with self.lock:
            generation = self.generations.get(name, 1) if name in self.objects else 0
            if precondition and int(precondition) != generation:
                return 0
            self.objects[name] = content
            self.generations[name] = generation + 1
            return generation + 1

    def names(self) -> tuple[str, ...]:
        """Return the names of all objects at one time: another thread may store meanwhile."""
        with self.lock:
            return tuple(self.objects)

    def failing(self, line: str) -> Failure | None:
        with self.lock:
            for failure in self.failures:
                if re.search(failure.match, line):
                    self.failures.remove(failure)
                    return failure
        return None


@contextmanager
def serving(bucket: Bucket) -> Iterator[Bucket]:
    with serving_http(_Handler, bucket=bucket) as bucket.url:
        yield bucket


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    """An empty bucket."""
    with serving(Bucket({})) as served:
        yield served


class _Cut(Exception):
    """The connection ends here."""


class _Handler(BaseHTTPRequestHandler):
    bucket: Bucket
    cut = False

    def do_GET(self) -> None:
        self._do(self._get)

    def do_POST(self) -> None:
        self._do(self._post)

    def do_PUT(self) -> None:
        self._do(self._put)

    def _do(self, work: Callable[[], None]) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.bucket.delay_s:
            time.sleep(self.bucket.delay_s)
        failure = self.bucket.failing(f"{self.command} {self.path}")
        self.cut = bool(failure and failure.cut)
        if self.bucket.status != 200:
            self._error(self.bucket.status, "no")
        elif failure and not failure.cut:
            self._error(failure.status, failure.message, dict(failure.headers))
        else:
            try:
                work()
            except _Cut:
                self.close_connection = True

    def _get(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        found = re.fullmatch(r"(/download)?/storage/v1/b/([^/]+)(/o|/iam/testPermissions)?(?:/(.+))?", url.path)
        if found is None or found[2] != self.bucket.name:
            self._error(404, "The specified bucket does not exist.")
        elif found[3] is None:
            self._json({"kind": "storage#bucket", "name": self.bucket.name, **self.bucket.settings})
        elif found[3] != "/o":
            names = [name for name in query.get("permissions", []) if name in self.bucket.permissions]
            self._json({"kind": "storage#testIamPermissionsResponse", **({"permissions": names} if names else {})})
        elif found[4] is None:
            self._json(self._listing(query))
        else:
            self._object(unquote(found[4]), media=bool(found[1]) or query.get("alt") == ["media"])

    def _listing(self, query: dict[str, list[str]]) -> dict[str, object]:
        prefix = query.get("prefix", [""])[0]
        objects = self.bucket.names()
        ends = (
            tuple(query["matchGlob"][0].removeprefix("**/{").rstrip("}").split(",")) if "matchGlob" in query else ("",)
        )
        below = [name[len(prefix) :] for name in objects if name.startswith(prefix) and name.endswith(ends)]
        flat = "delimiter" not in query
        folders = {prefix + name.partition("/")[0] + "/" for name in below if "/" in name and not flat}
        every = sorted({*folders, *(prefix + name for name in below if flat or "/" not in name)})
        first, page_size = int(query.get("pageToken", ["0"])[0]), int(query.get("maxResults", ["1000"])[0])
        page, times = every[first : first + min(page_size, PAGE)], self.bucket.updated
        files = [
            {
                "name": name,
                "size": str(len(self.bucket.objects.get(name, b""))),
                "crc32c": base64.b64encode(
                    struct.pack(">I", google_crc32c.value(self.bucket.objects.get(name, b"")))
                ).decode(),
                **({"updated": times[name]} if name in times else {}),
            }
            for name in page
            if name not in folders
        ]
        more = {"nextPageToken": str(first + len(page))} if first + len(page) < len(every) else {}
        return {"kind": "storage#objects", "items": files, "prefixes": [n for n in page if n in folders], **more}

    def _object(self, name: str, *, media: bool) -> None:
        content = self.bucket.objects.get(name)
        if content is None:
            return self._error(404, "No such object")
        if not media:
            return self._json(self._metadata(name, content))
        generation = {"X-Goog-Generation": str(self.bucket.generations.get(name, 1))}  # which TensorStore asks for
        if "Range" not in self.headers:
            return self._answer(200, content, generation)
        start, _, end = self.headers["Range"].removeprefix("bytes=").partition("-")
        first, last = int(start), int(end or len(content))
        if first >= len(content):
            return self._answer(416, b"")
        part = content[first : last + 1]
        text = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        return self._answer(206, part, {"Content-Range": text, **generation})

    def _post(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path != f"/upload/storage/v1/b/{self.bucket.name}/o":
            return self._error(404, "The specified bucket does not exist.")
        if "upload_id" in query:
            return self._put()
        precondition = query.get("ifGenerationMatch", "")
        match query.get("uploadType"):
            case "media":
                self._stored(query["name"], self.body, precondition)
            case "multipart":
                head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
                metadata, content = (part.get_payload(decode=True) for part in _parts(head + self.body))
                self._stored(json.loads(metadata)["name"], content, precondition)
            case "resumable":
                name = query.get("name") or json.loads(self.body)["name"]
                session = str(len(self.bucket.sessions) + 1)
                self.bucket.sessions[session] = (name, precondition, bytearray())
                self._answer(200, b"", {"Location": f"{self.bucket.url}{self.path}&upload_id={session}"})
            case other:
                self._error(400, f"uploadType {other}")
        return None

    def _put(self) -> None:
        """Store a chunk of a resumable upload, sent by PUT, or by POST from gcsfs: `Content-Range: bytes 0-9/10`, or
        `bytes 0-9/*` while more is to come.
        """
        name, precondition, content = self.bucket.sessions[parse_qs(urlsplit(self.path).query)["upload_id"][0]]
        content += self.body
        if self.headers["Content-Range"].endswith("/*"):
            return self._answer(308, b"", {"Range": f"bytes=0-{len(content) - 1}"})
        return self._stored(name, bytes(content), precondition)

    def _stored(self, name: str, content: bytes, precondition: str) -> None:
        if self.bucket.store(name, content, precondition=precondition):
            self._json(self._metadata(name, content))
        else:
            self._error(412, "At least one of the pre-conditions you specified did not hold.")

    def _metadata(self, name: str, content: bytes) -> dict[str, object]:
        crc = base64.b64encode(struct.pack(">I", google_crc32c.value(content))).decode()
        object_row = {"name": name, "bucket": self.bucket.name, "size": str(len(content)), "crc32c": crc}
        return {"kind": "storage#object", "generation": str(self.bucket.generations.get(name, 1)), **object_row}

    def _json(self, document: dict[str, object]) -> None:
        self._answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        body = json.dumps({"error": {"code": status, "message": message}}).encode()
        self._answer(status, body, {"Content-Type": "application/json", **(headers or {})})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.bucket.asked.append(f"{self.command} {self.path} {len(body)}")
        if self.cut:
            raise _Cut
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _parts(message: bytes) -> list[Any]:
    return list(BytesParser().parsebytes(message).get_payload())
