"""Dumps of the pinned tools, made once per session by their own Python."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from xsft.effects.environments.installed import BuiltEnvironment

DUMPS = Path(__file__).parent / "dumps"


@pytest.fixture(scope="session")
def xpk_tpu_types(xpk_environment: BuiltEnvironment) -> dict[str, Any]:
    return _dump(xpk_environment, "xpk_tpu_types.py")


@pytest.fixture(scope="session")
def maxtext_facts(maxtext_environment: BuiltEnvironment) -> dict[str, Any]:
    return _dump(maxtext_environment, "maxtext_facts.py")


def _dump(environment: BuiltEnvironment, script: str) -> dict[str, Any]:
    quiet = {**os.environ, "JAX_PLATFORMS": "cpu", "TELEMETRY_ENABLED": "false"}
    argv = (str(environment.python), str(DUMPS / script))
    done = subprocess.run(argv, env=quiet, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts
