"""An environment of MaxText whose interpreter has imported MaxText already: a program starts in tenths of a second.

Its `python` sends a program's file, `-c CODE` and `-m maxtext.…` to one process, which forks (tests/contract/
warm_server.py); any other command line starts the real interpreter. A program ends with its caller, as a real one does.
Programs that get signals, and a test of each stage's start, need the real one.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.podshell import executable
from tests.until import until
from xsft.environments.installed import BuiltEnvironment
from xsft.machine import pid_namespace
from xsft.trainer.local import OFFLINE, PASSED_ON

CLIENT, SERVER = (Path(__file__).parent / "contract" / f"warm_{end}.py" for end in ("client", "server"))


@contextmanager
def cache_of(built: BuiltEnvironment, folder: Path) -> Iterator[Path]:
    """A cache folder (XSFT_CACHE_DIR) with this environment, and the others as they are."""
    cache, path, endpoint = folder / "cache", folder / "socket", os.environ["HF_ENDPOINT"]
    environment = cache / "envs" / built.folder.name
    (environment / "bin").mkdir(parents=True)
    for other in (*built.folder.parent.iterdir(), *built.folder.iterdir()):
        place = environment if other.parent == built.folder else environment.parent
        if not (place / other.name).exists():
            (place / other.name).symlink_to(other)
    client = shlex.join(map(str, (sys.executable, "-IS", CLIENT, path, endpoint, built.python)))
    executable(environment / "bin" / "python", f'#!/bin/sh\nexec {client} "$@"\n')
    argv = (*pid_namespace.detect().prefix, str(built.python), "-Iu", str(SERVER), str(path))
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    own = {  # which libraries read when they are imported
        **OFFLINE,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(cache / "huggingface"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "JAX_COMPILATION_CACHE_DIR": str(built.folder.parent.with_name("jax")),
        "JAX_PLATFORMS": "cpu",
    }
    with (folder / "log").open("w") as log, subprocess.Popen(argv, env=env | own, stderr=log, stdout=log) as server:
        try:
            until(lambda: path.exists() or server.poll() is not None, within_s=300)
            assert server.poll() is None, (folder / "log").read_text()
            yield cache
        finally:
            server.kill()
