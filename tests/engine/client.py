"""Finds a docker client of this machine that can build with BuildKit.

A client from 23 on needs the buildx plugin, which a distribution may lack; a 20.10 client uses the engine's own
BuildKit (infra study §6: Debian's /usr/bin/docker, often behind a newer one on PATH).
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache

from tests.engine.machine import search_path, which

NEEDS_PLUGIN = 23
"""First major version whose `docker build` is `docker buildx build`. source: Docker 23.0 release notes."""


@cache
def building_client() -> str:
    """Path of the first client on PATH that builds; the first one at all where none does."""
    names = (os.path.join(folder, "docker") for folder in search_path().split(os.pathsep))
    clients = [path for path in dict.fromkeys(names) if os.access(path, os.X_OK)]
    return next((path for path in clients if _builds(path)), which("docker") or "docker")


def _builds(client: str) -> bool:
    version = re.search(r"version (\d+)\.", _said(client, "--version"))
    if version is None:
        return False
    return int(version[1]) < NEEDS_PLUGIN or bool(_said(client, "buildx", "version"))


def _said(*argv: str) -> str:
    """Standard output; empty where the command fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""
