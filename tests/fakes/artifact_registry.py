"""Artifact Registry's API, small: it answers from a real registry's /v2/ API, so that a push is what it lists.

source: artifactregistry.googleapis.com v1 REST reference (the four routes that xsft uses).
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.loopback import serving_http

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
PARENT = r"/v1/(projects/[^/]+/locations/[^/]+)/repositories"
TYPES = "type.googleapis.com/google.devtools.artifactregistry.v1"
UPLOADED = "2026-11-21T12:00:00Z"


@dataclass
class Refusal:
    """An answer that requests matching `on` ("METHOD /path") get, `times` times."""

    on: str
    code: int
    status: str
    message: str
    reason: str = ""
    times: int = 1000
    page: bytes | None = None
    """Instead of the error's JSON."""


@dataclass
class FakeArtifactRegistry:
    """`host` is what the client is told. A repository's images are those of `upstream` whose name starts as its own."""

    host: str = ""
    upstream: str = ""
    """`127.0.0.1:PORT` of a real registry; images lie there below `<repository name>/`."""
    repositories: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    page: int = 1000
    """Images of a page."""
    operations: list[dict[str, Any]] = field(default_factory=list)
    """What a creation and the questions about it answer, one after the other; none: it is done at once."""
    retry_after: str = ""
    """The Retry-After of all answers."""

    def add(self, path: str, **more: Any) -> None:
        """`projects/P/locations/L/repositories/R`."""
        self.repositories[path] = {"name": path, "format": "DOCKER", "createTime": UPLOADED, "sizeBytes": "5", **more}

    def answer(self, method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
        line = f"{method} {path}"
        self.asked.append(line)
        for refusal in self.refusals:
            if refusal.times > 0 and re.search(refusal.on, line):
                refusal.times -= 1
                refused = _error(refusal.code, refusal.status, refusal.message, refusal.reason)
                return refusal.code, refused if refusal.page is None else refusal.page
        return self._granted(method, path, query, body)

    def _granted(self, method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
        if method == "POST" and (found := re.fullmatch(PARENT, path)):
            return self._create(found[1], dict(p.split("=") for p in query.split("&"))["repositoryId"], body)
        if found := re.fullmatch(rf"({PARENT}/[^/]+)", path):
            return self._described(found[1].removeprefix("/v1/"))
        if re.fullmatch(r"/v1/projects/[^/]+/locations/[^/]+/operations/1", path):
            return 200, self._operation(path.removeprefix("/v1/"))
        if found := re.fullmatch(rf"({PARENT}/[^/]+)/dockerImages", path):
            return self._images(found[1].removeprefix("/v1/"), parse_qs(query))
        return 404, _error(404, "NOT_FOUND", f"no route: {method} {path}")

    def _create(self, parent: str, name: str, body: dict[str, Any]) -> tuple[int, Any]:
        path = f"{parent}/repositories/{name}"
        if path in self.repositories:
            return 409, _error(409, "ALREADY_EXISTS", "the repository already exists")
        self.add(path, **body)
        return 200, self._operation(f"{parent}/operations/1")

    def _operation(self, name: str) -> dict[str, Any]:
        """What a creation, and a question about it, answers. source: google.longrunning.Operation."""
        state = self.operations.pop(0) if self.operations else {"done": True}
        if state["done"] and "error" not in state:
            state = {"response": {"@type": f"{TYPES}.Repository", "format": "DOCKER"}, **state}
        return {"name": name, "metadata": {"@type": f"{TYPES}.OperationMetadata"}, **state}

    def _described(self, path: str) -> tuple[int, Any]:
        if path not in self.repositories:
            return 404, _error(404, "NOT_FOUND", "Requested entity was not found.")
        return 200, self.repositories[path]

    def _images(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        code, repository = self._described(path)
        if code != 200:
            return code, repository
        images = list(self._stored(path))
        start = int(query.get("pageToken", ["0"])[0])
        end = start + min(self.page, int(query["pageSize"][0]))
        return 200, {"dockerImages": images[start:end], **({"nextPageToken": str(end)} if end < len(images) else {})}

    def _stored(self, path: str) -> Iterator[dict[str, Any]]:
        _, project, _, location, _, name = path.split("/")
        docker = f"{location}-docker.pkg.dev/{project}/{name}"
        catalog = _get(self.upstream, "/v2/_catalog")[1] if self.upstream else {}
        for stored in catalog.get("repositories") or ():
            if stored.startswith(f"{name}/"):
                image = stored.removeprefix(f"{name}/")
                for digest, found in self._by_digest(stored).items():
                    yield {
                        "name": f"{path}/dockerImages/{image}@{digest}",
                        "uri": f"{docker}/{image}@{digest}",
                        **found,
                    }

    def _by_digest(self, stored: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for tag in _get(self.upstream, f"/v2/{stored}/tags/list")[1].get("tags") or ():
            digest, manifest = _get(self.upstream, f"/v2/{stored}/manifests/{tag}")
            size = sum(layer["size"] for layer in (manifest["config"], *manifest["layers"]))
            image = {"tags": [], "imageSizeBytes": str(size), "uploadTime": UPLOADED, "mediaType": MANIFEST}
            found.setdefault(digest, image)["tags"].append(tag)
        return found


@contextmanager
def artifact_registry(upstream: str = "") -> Iterator[FakeArtifactRegistry]:
    """A server on loopback, gone at the end."""
    fake = FakeArtifactRegistry(upstream=upstream)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
            code, answer = fake.answer(self.command, parts.path, parts.query.replace("%24", "$"), body)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Retry-After", fake.retry_after)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

    with serving_http(Handler) as url:
        fake.host = url.removeprefix("http://")
        yield fake


def _error(code: int, status: str, message: str, reason: str = "") -> dict[str, Any]:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}] if reason else []
    return {"error": {"code": code, "status": status, "message": message, "details": details}}


def _get(upstream: str, path: str) -> tuple[str, dict[str, Any]]:
    """The manifest's digest where there is one, and the parsed body."""
    request = urllib.request.Request(f"http://{upstream}{path}", headers={"Accept": MANIFEST})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
        return answer.headers.get("Docker-Content-Digest", ""), json.load(answer)
