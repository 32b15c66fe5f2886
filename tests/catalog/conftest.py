"""Dumps of the pinned tools, made by their own Python."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.maxtext import answer
from xsft.environments.installed import BuiltEnvironment

DUMPS = Path(__file__).parent / "dumps"


@pytest.fixture(scope="session")
def xpk_tpu_types(xpk_environment: BuiltEnvironment) -> dict[str, Any]:
    quiet = {**os.environ, "TELEMETRY_ENABLED": "false"}
    argv = (str(xpk_environment.python), str(DUMPS / "xpk_tpu_types.py"))
    done = subprocess.run(argv, env=quiet, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


@pytest.fixture(scope="session")
def maxtext_facts(maxtext_python: Path) -> dict[str, Any]:
    facts: dict[str, Any] = answer(maxtext_python, DUMPS / "maxtext_facts.py")
    return facts
