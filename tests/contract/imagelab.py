"""A project with a small image of its own, and `xsft image`, which builds and pushes it on a real engine."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests import inprocess
from tests.contract.commandline import XSFT
from tests.engine.daemon import Engine

DOCKERFILE = """\
FROM scratch
ARG MAXTEXT_VERSION=0.2.5
COPY requirements.txt /lock.txt
LABEL org.opencontainers.image.title="small"
COPY deps.json /usr/share/xsft/deps.json
"""


@dataclass(frozen=True)
class Project:
    folder: Path
    env: Mapping[str, str]

    @property
    def lock(self) -> Path:
        return self.folder / "images" / "small.lock.json"

    def locked(self) -> dict[str, Any]:
        return dict(json.loads(self.lock.read_text(encoding="utf-8"))["images"])

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            (str(XSFT), *arguments),
            env={**self.env, **(env or {})},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def xsft(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run xsft in this process, which saves a second each."""
        with patch.dict(os.environ, {**self.env, **(env or {})}, clear=True), chdir(self.folder):
            return inprocess.xsft(*arguments)

    def image(self, action: str, *arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        """`xsft image ACTION … --json` of the small image. Raises AssertionError where it fails."""
        done = self.xsft("image", action, "--image=small", "--code=extra", *arguments, "--json", env=env)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


def project(folder: Path, engine: Engine, *, salt: str) -> Project:
    """`salt` makes its images differ from all others in the session's engine and registry."""
    small = folder / "images" / "small"
    small.mkdir(parents=True)
    (small / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    # Hexadecimal text compresses to no less than half: the dependencies are seen to be sent, or not.
    lock = f"# {salt}\n# {os.urandom(200_000).hex()}\n"
    (small / "requirements.txt").write_text(lock, encoding="utf-8")
    record = {"lock_sha256": hashlib.sha256(lock.encode()).hexdigest()}
    (small / "deps.json").write_text(json.dumps(record), encoding="utf-8")
    (folder / "extra").mkdir()
    (folder / "extra" / "hooks.py").write_text("print(1)\n", encoding="utf-8")
    (folder / "pyproject.toml").write_text("", encoding="utf-8")
    return Project(folder, environment(folder, engine))


def environment(folder: Path, engine: Engine) -> dict[str, str]:
    """The engine's environment, and xsft's own folders below `folder`; no login."""
    engine_environment = {
        "HOME": str(folder / "home"),
        "XSFT_CACHE_DIR": str(folder / "cache"),
        "XSFT_STATE_DIR": str(folder / "state"),
        "CLOUDSDK_CONFIG": str(folder / "no-login"),
        "NO_GCE_CHECK": "true",
        "LANG": "C.UTF-8",
    }
    loader = os.environ.get("LD_LIBRARY_PATH")
    return {**engine.env, **engine_environment, **({"LD_LIBRARY_PATH": loader} if loader else {})}
