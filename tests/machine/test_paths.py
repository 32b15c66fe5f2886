from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from xsft.machine import paths
from xsft.machine.files import write_atomic
from xsft.machine.paths import PRIVATE_FILE, private_folder

HOME = Path("/home/ada")


@pytest.mark.parametrize(
    ("env", "cache", "state"),
    [
        ({}, "/home/ada/.cache/xsft", "/home/ada/.local/state/xsft"),
        ({"XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/xsft", "/s/xsft"),
        ({"XDG_CACHE_HOME": "relative", "XDG_STATE_HOME": ""}, "/home/ada/.cache/xsft", "/home/ada/.local/state/xsft"),
        ({"XSFT_CACHE_DIR": "/mine", "XSFT_STATE_DIR": "/my-state", "XDG_CACHE_HOME": "/c"}, "/mine", "/my-state"),
    ],
)
def test_folders_follow_xdg_and_the_overrides(env: dict[str, str], cache: str, state: str) -> None:
    assert str(paths.cache_dir(env, home=HOME)) == cache
    assert str(paths.state_dir(env, home=HOME)) == state


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> object:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_new_folders_are_private_and_existing_ones_unchanged(umask: int, tmp_path: Path) -> None:
    file = tmp_path / "there"
    file.mkdir(mode=0o755)
    before = mode(file)
    private_folder(file / "a" / "b")
    private_folder(file / "a" / "b")
    assert [mode(file), mode(file / "a"), mode(file / "a" / "b")] == [before, 0o700, 0o700]
    (file / "file").touch()
    with pytest.raises(FileExistsError):
        private_folder(file / "file")


def test_a_private_file_is_private_from_its_first_byte(umask: int, tmp_path: Path) -> None:
    modes: list[int] = []

    def write(fd: int, data: bytes) -> int:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))
        return os.write(fd, data)

    write_atomic(tmp_path / "a", "x", mode=PRIVATE_FILE, write=write)
    assert modes == [0o600]
    assert mode(tmp_path / "a") == 0o600
    write_atomic(tmp_path / "b", "x")
    assert mode(tmp_path / "b") == 0o666 & ~umask


WRITES = """
import os; os.umask(0)
from pathlib import Path
from xsft.environments.render import _write_cached
from xsft.data.counted_store import keep_counts
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_private
from xsft.machine.paths import cache_dir, state_dir
from xsft.records.index import IndexEntry, keep_entry
from xsft.checks.facts import CountedData
home = Path(os.environ["HOME"])
state, cache = state_dir(os.environ, home=home), cache_dir(os.environ, home=home)
keep_entry(state / "runs", IndexEntry(run_name="a", target="local", output="/o"))
_write_cached(cache / "renders" / "ab" / "c.yaml", "manifest")
write_private(cache / "images" / "seen.json", "{}")
keep_counts("a", CountedData(problems=(), rows="r", on="o"))
with exclusive(cache / "sources" / "a.lock", waiting=lambda: None):
    pass
"""


def test_all_files_of_state_and_cache_are_private_under_umask_000(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": "", "XDG_CACHE_HOME": "", "XSFT_STATE_DIR": ""}
    env.pop("XSFT_CACHE_DIR", None)
    subprocess.run((sys.executable, "-c", WRITES), env=env, check=True)
    modes = {str(p.relative_to(tmp_path)): oct(mode(p)) for p in tmp_path.rglob("*")}
    assert len(modes) >= 14
    folders = {path: bits for path, bits in modes.items() if (tmp_path / path).is_dir()}
    assert {*folders.values()} == {"0o700"}, json.dumps(folders, indent=1)
    files = {path: bits for path, bits in modes.items() if path not in folders and not path.endswith(".lock")}
    assert {*files.values()} == {"0o600"}, json.dumps(files, indent=1)
