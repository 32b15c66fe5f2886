from __future__ import annotations

import os
import subprocess
from pathlib import Path

from xsft.effects.environments.uv import PATIENCE, find_uv, uv_environment


def test_find_uv_returns_a_uv_that_runs() -> None:
    done = subprocess.run((find_uv(), "--version"), env=dict(os.environ), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("uv ")


def test_a_pip_mirror_is_passed_to_uv_unless_uv_has_its_own() -> None:
    told = uv_environment({"PIP_INDEX_URL": "https://mirror.example/simple"})
    own = uv_environment({"PIP_INDEX_URL": "https://mirror.example/simple", "UV_DEFAULT_INDEX": "https://own.example"})
    assert told["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert own["UV_DEFAULT_INDEX"] == "https://own.example"


def test_uv_environment_drops_other_environments_and_keeps_the_rest() -> None:
    given = {"VIRTUAL_ENV": "x", "PYTHONPATH": "y", "CONDA_PREFIX": "z", "HTTPS_PROXY": "http://proxy.example"}
    assert uv_environment(given, bundles=()) == {**PATIENCE, "HTTPS_PROXY": "http://proxy.example", "NO_COLOR": "1"}


def test_the_certificates_of_the_system_are_used_unless_uv_is_configured(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.crt"
    assert "UV_SYSTEM_CERTS" not in uv_environment({}, bundles=(bundle,))
    bundle.touch()
    assert uv_environment({}, bundles=(bundle,))["UV_SYSTEM_CERTS"] == "1"
    assert uv_environment({"UV_SYSTEM_CERTS": "0"}, bundles=(bundle,))["UV_SYSTEM_CERTS"] == "0"
