"""A stand-in for the Hugging Face hub on loopback, to read from: one model or data set, its revisions and files.

source: huggingface_hub@2.4.0 hf_api.py repo_info, list_repo_tree, get_paths_info; file_download.py
get_hf_file_metadata, http_get (Range); utils/_http.py hf_raise_for_status (X-Error-Code).
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

from tests.fakes.loopback import serving_http

COMMIT = "5" * 40


@dataclass
class HubFiles:
    """The hub's files of one repository, and the requests it received."""

    files: Mapping[str, bytes]
    repo: str = "me/tiny"
    revisions: tuple[str, ...] = ("main", COMMIT)
    token: str | None = None
    """If set, the repository is gated: everybody may read about it, and only this token may read its files."""
    cut_after: dict[str, int] = field(default_factory=dict)
    """Bytes after which the connection of the first download of a file breaks."""
    rate: float = 1e9
    """Bytes a second of a download."""
    asked: list[str] = field(default_factory=list)
    """Method, path, and the range of bytes if one was asked for."""
    url: str = ""


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@contextmanager
def serving_files(hub: HubFiles) -> Iterator[HubFiles]:
    with serving_http(_Handler, hub=hub) as hub.url:
        yield hub


class _Handler(BaseHTTPRequestHandler):
    hub: HubFiles
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._do(b"")

    def do_HEAD(self) -> None:
        self._do(b"")

    def do_POST(self) -> None:
        self._do(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _do(self, body: bytes) -> None:
        path = unquote(self.path.partition("?")[0])
        self.hub.asked.append(f"{self.command} {path} {self.headers.get('Range') or ''}".strip())
        of = rf"/api/(?:models|datasets)/{self.hub.repo}"
        about = re.fullmatch(rf"{of}(?:/(tree|paths-info|revision)/([^/]+)(?:/(.*))?|/(auth-check))?", path)
        file = re.fullmatch(rf"(?:/datasets)?/{self.hub.repo}/resolve/([^/]+)/(.+)", path)
        if not about and not file:
            return self._refuse(404, "RepoNotFound")
        is_open = not (file or (about and about[4]))
        if self.hub.token and not is_open and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._refuse(401, "GatedRepo")
        revision = (about[2] if about else file[1] if file else None) or "main"
        if revision not in self.hub.revisions:
            return self._refuse(404, "RevisionNotFound")
        if about:
            return self._json(self._about(about[1] or "revision", about[3] or "", body))
        return self._file(file[2] if file else "")

    def _about(self, what: str, below: str, body: bytes) -> object:
        listed = [self._described(name) for name in self.hub.files if name.startswith(below)]
        if what == "tree":
            return listed
        if what == "paths-info":
            return [listed_file for listed_file in listed if str(listed_file["path"]) in body.decode()]
        siblings = [{"rfilename": name, "size": len(content)} for name, content in self.hub.files.items()]
        more = {"tags": [], "private": False, "downloads": 0, "likes": 0, "gated": "auto" if self.hub.token else False}
        return {"id": self.hub.repo, "sha": COMMIT, "siblings": siblings, **more}

    def _described(self, name: str) -> dict[str, object]:
        content = self.hub.files[name]
        return {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}

    def _file(self, name: str) -> None:
        content = self.hub.files.get(name)
        if content is None:
            return self._refuse(404, "EntryNotFound")
        begin, end = self._range(len(content))
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        if self.command == "GET":
            self._send(content[begin:end], cut=self.hub.cut_after.pop(name, None))
        return None

    def _range(self, size: int) -> tuple[int, int]:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        return (int(match[1]), int(match[2]) + 1 if match[2] else size) if match else (0, size)

    def _send(self, content: bytes, *, cut: int | None) -> None:
        piece = 1 << 16
        for index in range(0, len(content) if cut is None else cut, piece):
            self.wfile.write(content[index : index + piece])
            time.sleep(piece / self.hub.rate)
        if cut is not None:
            self.close_connection = True
            self.connection.close()

    def _json(self, document: object) -> None:
        self._answer(json.dumps(document).encode(), status=200, code="")

    def _refuse(self, status: int, code: str) -> None:
        self._answer(json.dumps({"error": code}).encode(), status=status, code=code)

    def _answer(self, body: bytes, *, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if code:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
