from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from xsft.environments.installed import BuiltEnvironment


def setup(*options: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "xsft", "setup", *options)
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_setup_prints_an_existing_environment_as_json(xpk_environment: BuiltEnvironment) -> None:
    done = setup("xpk", "--json", env=dict(os.environ))
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr, document["schema"]) == (0, "", "xsft.setup/1")
    assert [row["python"] for row in document["environments"]] == [str(xpk_environment.python)]


def test_an_unknown_environment_is_a_usage_error(tmp_path: Path) -> None:
    done = setup("torch", env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert done.returncode == 2
    assert "unknown environment 'torch'" in done.stderr
    assert "xpk, maxtext" in done.stderr


def test_setup_without_a_network_is_one_message(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "UV_OFFLINE": "1"}
    done = setup("xpk", env=env)
    assert done.returncode == 3
    assert "no answer from the package index" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
