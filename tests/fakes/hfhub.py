"""A stand-in for the Hugging Face hub on loopback: creating a repository, and committing files to it.

Files of weights go through Git LFS's batch API, the others are in the commit itself. source: huggingface_hub@2.4.0
hf_api.py create_repo, create_commit, repo_info, list_repo_commits; _commit_api.py (preupload, NDJSON of a commit);
lfs.py post_lfs_batch_info; huggingface.co/docs/hub/api.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.loopback import serving_http

TOKEN = "only-for-tests"


@dataclass
class Hub:
    """The hub's files of one repository, and the requests it received."""

    repo: str = "me/tiny"
    made: bool = False
    private: bool | None = None
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    """Title and all files, oldest first."""
    large: dict[str, bytes] = field(default_factory=dict)
    """Content by its sha256."""
    asked: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[-1][1] if self.commits else {}


@contextmanager
def serving_hub(hub: Hub) -> Iterator[Hub]:
    with serving_http(_Handler, hub=hub) as hub.url:
        yield hub


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def do_PUT(self) -> None:
        self._do()

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) if "chunked" not in (
            self.headers.get("Transfer-Encoding") or ""
        ) else b"".join(self._chunks())  # fmt: skip
        path = self.path.partition("?")[0]
        self.hub.asked.append(f"{self.command} {path}")
        if not path.startswith("/lfs/") and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer({"error": "Invalid username or password."}, status=401)
            return
        self._route(path, body)

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().strip() or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()

    def _route(self, path: str, body: bytes) -> None:
        hub, model = self.hub, f"/api/models/{self.hub.repo}"
        if path == "/api/repos/create":
            self._create(json.loads(body))
        elif path.startswith("/lfs/"):
            hub.large[path.removeprefix("/lfs/")] = body
            self._answer({})
        elif path == f"/{hub.repo}.git/info/lfs/objects/batch":
            self._answer(
                {"transfer": "basic", "objects": [self._upload(pointer) for pointer in json.loads(body)["objects"]]}
            )
        elif path == f"{model}/preupload/main":
            files = [self._mode(pointer["path"]) for pointer in json.loads(body)["files"]]
            self._answer({"files": files})
        elif path == f"{model}/commit/main":
            self._commit([json.loads(line) for line in body.splitlines() if line])
        elif path == f"{model}/commits/main":
            self._answer([_described(number, title) for number, (title, _) in reversed([*enumerate(hub.commits)])])
        elif path in (model, f"{model}/revision/main"):
            siblings = [{"rfilename": name, "size": len(content)} for name, content in hub.files.items()]
            self._answer({"id": hub.repo, "sha": _sha(len(hub.commits) - 1), "siblings": siblings})
        else:
            self._answer({"error": f"no such page: {path}"}, status=404)

    def _create(self, repository: dict[str, Any]) -> None:
        if self.hub.made:
            url = f"{self.hub.url}/{self.hub.repo}"
            self._answer({"error": "You already created this model repo", "url": url}, status=409)
            return
        self.hub.made, self.hub.private = (
            True,
            repository.get("private") is True or repository.get("visibility") == "private",
        )
        self.hub.commits.append(("initial commit", {".gitattributes": b"*.safetensors filter=lfs"}))
        self._answer({"url": f"{self.hub.url}/{self.hub.repo}"})

    def _upload(self, pointer: dict[str, Any]) -> dict[str, Any]:
        return {**pointer, "actions": {"upload": {"href": f"{self.hub.url}/lfs/{pointer['oid']}"}}}

    def _mode(self, name: str) -> dict[str, Any]:
        return {
            "path": name,
            "uploadMode": "lfs" if name.endswith(".safetensors") else "regular",
            "shouldIgnore": False,
            "oid": None,
        }

    def _commit(self, lines: list[dict[str, Any]]) -> None:
        head = lines[0]["value"]
        if head.get("parentCommit") not in (None, _sha(len(self.hub.commits) - 1)):
            self._answer({"error": "A commit has happened since"}, status=412)
            return
        files = dict(self.hub.files)
        for line in lines[1:]:
            value = line["value"]
            files[value["path"]] = (
                base64.b64decode(value["content"]) if line["key"] == "file" else self.hub.large[value["oid"]]
            )
        self.hub.commits.append((head["summary"], files))
        sha = _sha(len(self.hub.commits) - 1)
        self._answer({"commitUrl": f"{self.hub.url}/{self.hub.repo}/commit/{sha}", "commitOid": sha})

    def _answer(self, document: object, *, status: int = 200) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _sha(number: int) -> str:
    return f"{number:040x}"


def _described(number: int, title: str) -> dict[str, Any]:
    return {"id": _sha(number), "title": title, "message": "", "authors": [], "date": "2026-11-23T00:00:00.000Z"}
