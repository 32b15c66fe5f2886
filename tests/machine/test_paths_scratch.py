"""Temporary folders of processes that could not remove them."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xsft.machine.paths import OLD_S, PREFIX, scratch_folder, sweep_scratch

ROOT = Path(__file__).parents[2]
HOLDS = """
import sys, time
from xsft.machine.paths import scratch_folder
with scratch_folder("test") as folder:
    (folder / "kubeconfig").write_text("x")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_scratch_folder_is_private_and_removed_afterwards(temporary: Path) -> None:
    before = os.umask(0)
    try:
        with scratch_folder("test") as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert folder.parent == temporary
            (folder / "a").mkdir()
    finally:
        os.umask(before)
    assert list(temporary.iterdir()) == []


def test_sweep_scratch_removes_folders_of_killed_processes_and_keeps_those_in_use(temporary: Path) -> None:
    env = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen((sys.executable, "-c", HOLDS), env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        sweep_scratch(temporary, older_s=-1)
        assert (folder / "kubeconfig").exists()
        process.kill()
    assert folder.exists()
    sweep_scratch(temporary)
    assert folder.exists(), "it is younger than an hour"
    past = time.time() - OLD_S - 1
    os.utime(folder, (past, past))
    with scratch_folder("other"):
        assert not folder.exists()


def test_sweep_scratch_keeps_all_other_files(temporary: Path) -> None:
    (temporary / "aim").mkdir()
    (temporary / "aim" / "file").touch()
    (temporary / f"{PREFIX}link").symlink_to(temporary / "aim")
    (temporary / f"{PREFIX}file").touch()
    (temporary / "xsft-other").mkdir()
    sweep_scratch(temporary, older_s=-1)
    sweep_scratch(temporary / "missing", older_s=-1)
    assert {p.name for p in temporary.iterdir()} == {"aim", f"{PREFIX}link", f"{PREFIX}file", "xsft-other"}
    assert (temporary / "aim" / "file").exists()


def test_temporary_folders_are_made_only_by_the_listed_modules() -> None:
    """`make setup` runs before xsft is installed; a pod has its own disk."""
    others = {"bootstrap.py", "entry.py", "work.py", "paths.py"}
    makes = re.compile(r"TemporaryDirectory\(|mkdtemp\(|NamedTemporaryFile\([^)]*delete=False")
    names = {f.name for f in (ROOT / "xsft").rglob("*.py") if makes.search(f.read_text())}
    assert names == others
