from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import read_document


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """A user with an empty cache and no tools."""
    return {"PATH": str(tmp_path), "HOME": str(tmp_path), "XSFT_CACHE_DIR": str(tmp_path / "cache")}


def doctor(env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "xsft", "doctor", *options)
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=300)


def test_json_is_one_document_and_a_missing_environment_is_exit_status_3(bare: dict[str, str]) -> None:
    """And looking changes nothing."""
    done = doctor(bare, "--json")
    document = json.loads(done.stdout)
    assert len(done.stdout.splitlines()) == 1  # as every document: readers of lines take it whole
    assert (done.returncode, document["schema"], document["ok"]) == (3, "xsft.doctor/1", False)
    read_document("doctor", document)
    missing = {check["id"]: check["fix"] for check in document["checks"] if not check["ok"] and check["required"]}
    assert set(missing) == {"xpk-environment", "maxtext-environment"}
    assert missing["xpk-environment"].endswith("xsft setup xpk")
    assert not Path(bare["XSFT_CACHE_DIR"]).exists()


@pytest.mark.loopback
def test_the_table_names_what_is_missing_and_the_command_that_fixes_it(bare: dict[str, str]) -> None:
    done = doctor(bare)
    assert done.returncode == 3
    assert "xpk-environment" in done.stdout
    assert "fix: xsft setup xpk" in done.stdout
    assert "\x1b[" not in done.stdout


@pytest.mark.contract
def test_doctor_reports_a_built_environment_as_ok(xpk_environment: object) -> None:
    assert xpk_environment
    document = json.loads(doctor(dict(os.environ), "--json").stdout)
    xpk = next(check for check in document["checks"] if check["id"] == "xpk-environment")
    assert (xpk["ok"], xpk["version"]) == (True, "1.16.0")
