"""The built wheel works outside the checkout: command, locks, catalogue and schema travel in it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from xsft.effects.environments.uv import find_uv, uv_environment

pytestmark = pytest.mark.contract
CHECKOUT = Path(__file__).parents[2]

LOOK_INSIDE = """
from importlib.resources import files
import xsft
package = files("xsft")
for name in ("xpk", "maxtext", "xsft", "dev"):
    assert package.joinpath("locks", f"{name}.txt").is_file(), name
print(xsft.__file__)
"""


def run(*argv: str, cwd: Path) -> str:
    done = subprocess.run(argv, env=uv_environment(os.environ), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(find_uv(), "build", "--wheel", "--no-build-isolation", "--python", sys.executable, "-o", str(out), cwd=CHECKOUT)
    (built,) = out.glob("xsft-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the locked dependencies and the wheel; uv's cache makes it cheap and offline."""
    venv = tmp_path_factory.mktemp("outside") / "venv"
    python = str(venv / "bin" / "python")
    here = venv.parent
    run(find_uv(), "venv", "-q", "--python", sys.executable, str(venv), cwd=here)
    lock = str(CHECKOUT / "xsft" / "locks" / "xsft.txt")
    run(find_uv(), "pip", "sync", "-q", "--python", python, "--require-hashes", lock, cwd=here)
    run(find_uv(), "pip", "install", "-q", "--python", python, "--no-deps", str(wheel), cwd=here)
    return venv


def test_every_file_of_the_package_is_in_the_wheel_and_nothing_else(wheel: Path) -> None:
    tracked = run("git", "ls-files", "xsft", cwd=CHECKOUT).split()
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert set(tracked) <= packed
    assert {name.split("/")[0] for name in packed} == {"xsft"}


def test_an_installed_xsft_names_its_own_copy_of_the_schema_to_editors(installed: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "XSFT_CACHE_DIR": str(tmp_path / "cache")}
    argv = (str(installed / "bin" / "xsft"), "init", "--local", "w.yaml")
    subprocess.run(argv, env=env, cwd=tmp_path, check=True)
    address = (tmp_path / "w.yaml").read_text(encoding="utf-8").splitlines()[0].partition("$schema=")[2]
    file = Path(unquote(urlparse(address).path))
    assert file.resolve().is_relative_to(installed)
    assert file.read_text(encoding="utf-8") == (CHECKOUT / "docs/reference/workload.schema.json").read_text("utf-8")


def test_the_installed_wheel_has_the_command_and_its_data(installed: Path) -> None:
    assert "setup" in run(str(installed / "bin" / "xsft"), "--help", cwd=installed)
    where = run(str(installed / "bin" / "python"), "-I", "-c", LOOK_INSIDE, cwd=installed).strip()
    assert Path(where).is_relative_to(installed)


def test_the_locked_dependencies_are_all_that_it_needs(installed: Path) -> None:
    run(find_uv(), "pip", "check", "--python", str(installed / "bin" / "python"), cwd=installed)


def test_an_installed_xsft_knows_its_environments(installed: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "XSFT_CACHE_DIR": str(tmp_path / "cache")}
    argv = (str(installed / "bin" / "xsft"), "doctor", "--json")
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert '"xsft setup xpk"' in done.stdout
