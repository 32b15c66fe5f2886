"""The script that copies a fork over an installed package while an image is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / "images" / "post_training" / "place.py"
SAME_TIME = 315_619_200


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder in which a package `thing` is installed, with its byte code."""
    files = {"__init__.py": "", "a.py": "VALUE = 1\n", "gone.py": "", "conf/x.yml": "a: 1\n", "assets/words.bin": "w"}
    site = lay(tmp_path / "site", "thing", files)
    run(site, "-c", "import thing.a, thing.gone")
    return site


def test_only_changed_files_are_written(site: Path, tmp_path: Path) -> None:
    untouched = site / "thing/__init__.py"
    before = untouched.stat().st_mtime_ns
    tree = lay(
        tmp_path / "tree/src", "thing", {"__init__.py": "", "a.py": "VALUE = 2\n", "gone.py": "", "new/b.py": "B = 1\n"}
    )
    said = place(site, tree.parent)
    assert said.stdout == "thing: 2 files written, 1 removed, 2 as installed\n"
    assert untouched.stat().st_mtime_ns == before
    assert run(site, "-c", "import thing.a, thing.new.b; print(thing.a.VALUE, thing.new.b.B)").stdout == "2 1\n"


def test_byte_code_of_the_old_file_is_not_used_for_the_new_file(site: Path, tmp_path: Path) -> None:
    """A build context has one time for all files, and a change of one digit has one size."""
    for content in ("VALUE = 2\n", "VALUE = 3\n"):
        tree = lay(tmp_path / content.strip(), "thing", {"__init__.py": "", "a.py": content, "gone.py": ""})
        place(site, tree)
        os.utime(site / "thing/a.py", (SAME_TIME, SAME_TIME))
        place(site, tree)
        assert run(site, "-c", "import thing.a; print(f'VALUE = {thing.a.VALUE}')").stdout == content


def test_removed_modules_are_deleted_and_omitted_data_stays(site: Path, tmp_path: Path) -> None:
    place(site, lay(tmp_path / "tree", "thing", {"__init__.py": "", "a.py": "VALUE = 1\n"}))
    assert not (site / "thing/gone.py").exists()
    assert not (site / "thing/conf/x.yml").exists()
    assert list((site / "thing/__pycache__").glob("gone*")) == []
    assert (site / "thing/assets/words.bin").exists()
    assert run(site, "-c", "import thing.gone", check=False).returncode != 0


def test_files_left_out_as_installed_stay(site: Path, tmp_path: Path) -> None:
    tree = lay(tmp_path / "tree", "thing", {"__init__.py": "", "a.py": "VALUE = 2\n"})
    (tree / "as-installed.txt").write_text("5 conf/x.yml\n1 assets/words.bin\n", encoding="utf-8")
    assert place(site, tree).stdout == "thing: 1 files written, 1 removed, 3 as installed\n"
    assert (site / "thing/conf/x.yml").exists()
    assert not (site / "thing/gone.py").exists()


@pytest.mark.parametrize("line", ["6 conf/x.yml", "0 nowhere.py"])
def test_files_left_out_by_mistake_fail_the_build(site: Path, tmp_path: Path, line: str) -> None:
    tree = lay(tmp_path / "tree", "thing", {"__init__.py": ""})
    (tree / "as-installed.txt").write_text(f"{line}\n", encoding="utf-8")
    failed = place(site, tree, check=False)
    assert failed.returncode != 0
    assert "left out of the build context" in failed.stderr
    assert (site / "thing/gone.py").exists()


def test_an_empty_folder_changes_nothing(site: Path, tmp_path: Path) -> None:
    before = sorted(site.rglob("*"))
    (tmp_path / "empty").mkdir()
    assert place(site, tmp_path / "empty").stdout == ""
    assert sorted(site.rglob("*")) == before


@pytest.mark.parametrize(("package", "words"), [("thing", "neither src/thing/ nor thing/"), ("other", "not installed")])
def test_wrong_package_folder_is_reported(site: Path, tmp_path: Path, package: str, words: str) -> None:
    tree = lay(tmp_path / "tree", "other", {"__init__.py": ""})
    said = run(site, str(PLACE), str(tree), package, check=False)
    assert said.returncode == 1
    assert words in said.stderr


def lay(folder: Path, package: str, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def place(site: Path, tree: Path, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run(site, str(PLACE), str(tree), "thing", check=check)


def run(site: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
    done = subprocess.run((sys.executable, *arguments), env=env, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done
