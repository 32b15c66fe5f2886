from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stories import ROOT
from tests.userfolders import user_folders
from xsft.records.record_files import record_store

WRITES = """
from pathlib import Path
from xsft.records.index import IndexEntry, keep_entry
from xsft.records.record_files import record_store

def test_a_run_is_kept(tmp_path):
    env = {"HOME": str(Path.home())}
    keep_entry(record_store(env).state / "runs", IndexEntry(run_name="tiny", target="local", output=str(tmp_path)))
"""


def test_runs_and_places_of_tests_are_not_the_users(tmp_path_factory: pytest.TempPathFactory) -> None:
    state, _, places = user_folders(os.environ)
    for folder in (state, places, record_store().state):
        assert folder.is_relative_to(tmp_path_factory.getbasetemp())


@pytest.mark.contract
def test_a_run_in_the_users_index_fails_the_tests(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(WRITES)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "XSFT_"))}
    options = ("-q", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), f"--basetemp={tmp_path / 'base'}")
    ran = subprocess.run(
        (sys.executable, "-m", "pytest", *options, str(tmp_path / "test_it.py")),
        cwd=ROOT,
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert f"tests wrote into the user's own folders: ['{tmp_path}/.local/state/xsft/runs/tiny-" in ran.stdout
