"""A stand-in of the Kubernetes API on loopback: enough to create, dry-run, read and list.

It stores objects and answers with the real server's words (study: infra §2.5, §4.1, §4.2). It runs no controller: what
JobSet and Kueue would do later, a test writes into `objects` itself. It fails on demand as the proxy before a real
server does, by the same code (tests/faults/).
"""

from __future__ import annotations

import gzip
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.kubelogs import PodLogs
from tests.fakes.kubeobjects import Objects
from tests.faults.answer import Answer, status
from tests.faults.fault import Seen
from tests.faults.server import Front, served

CONTEXT = "stand-in"

GZIP_FROM = 128 * 1024
"""Bytes; the real server compresses no smaller answer (study: infra §5)."""


@dataclass
class KubeApi:
    """One cluster."""

    objects: Objects = field(default_factory=Objects)
    logs: PodLogs = field(default_factory=PodLogs)
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    user: str = "nightly"
    denied: set[tuple[str, str]] = field(default_factory=set)
    """(verb, plural) that RBAC refuses."""
    front: Front = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.front = Front(behind=self.answer)

    @property
    def url(self) -> str:
        return self.front.url

    @property
    def seen(self) -> list[Seen]:
        return self.front.seen

    def fail(self, on: str, **how: Any) -> None:
        self.front.fail(on, **how)

    def answer(self, request: Seen) -> Answer:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized", "Unauthorized")
        if request.path.endswith("/log") and ("get", "pods/log") not in self.denied:
            return self.logs.answer(request.path, request.query, stopping=self.front.stopping)
        with self.lock:
            self.objects.user, self.objects.denied = self.user, self.denied
            accept = request.headers.get("accept", "")
            answer = self.objects.answer(
                request.method, request.path, query=request.query, body=request.body, accept=accept
            )
        return _packed(answer) if "gzip" in request.headers.get("accept-encoding", "") else answer

    def kubeconfig(self, file: Path, *, ca: Path | None = None) -> Path:
        """Write one that reaches this server as its user."""
        return write_kubeconfig(file, server=self.url, token=self.token, ca=ca)


def _packed(answer: Answer) -> Answer:
    content = answer.content()
    if len(content) <= GZIP_FROM:
        return answer
    return Answer(answer.code, gzip.compress(content, 4), {**answer.headers, "Content-Encoding": "gzip"})


def write_kubeconfig(file: Path, *, server: str, token: str, context: str = CONTEXT, ca: Path | None = None) -> Path:
    """Write a kubeconfig with a current context, which xsft must never use."""
    cluster = {"server": server, **({"certificate-authority": str(ca)} if ca else {})}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "somewhere-else",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
    }
    file.write_text(yaml.safe_dump(content))
    file.chmod(0o600)
    return file


@contextmanager
def serving(api: KubeApi, *, certificate: tuple[Path, Path] | None = None) -> Iterator[KubeApi]:
    """Serve it on a free port of loopback; with `certificate` (file, key) over TLS."""
    with served(api.front, certificate=certificate):
        yield api
