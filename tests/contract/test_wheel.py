"""The built wheel works outside the checkout: command, locks, catalogue and schema travel in it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from uv import find_uv_bin

from xsft.environments.uv import uv_environment

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
    run(
        find_uv_bin(),
        "build",
        "--wheel",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "-o",
        str(out),
        cwd=CHECKOUT,
    )
    (built,) = out.glob("xsft-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the locked dependencies and the wheel; uv's cache makes it cheap and offline."""
    venv = tmp_path_factory.mktemp("outside") / "venv"
    python = str(venv / "bin" / "python")
    here = venv.parent
    run(find_uv_bin(), "venv", "-q", "--python", sys.executable, str(venv), cwd=here)
    lock = str(CHECKOUT / "xsft" / "locks" / "xsft.txt")
    wheels = ("--require-hashes", "--only-binary", ":all:")
    run(find_uv_bin(), "pip", "sync", "-q", "--python", python, *wheels, lock, cwd=here)
    run(find_uv_bin(), "pip", "install", "-q", "--python", python, "--no-deps", str(wheel), cwd=here)
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
    run(find_uv_bin(), "pip", "check", "--python", str(installed / "bin" / "python"), cwd=installed)


def test_an_installed_xsft_knows_its_environments(installed: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "XSFT_CACHE_DIR": str(tmp_path / "cache")}
    argv = (str(installed / "bin" / "xsft"), "doctor", "--json")
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert '"xsft setup xpk"' in done.stdout


def test_uv_tool_install_gives_an_xsft_that_builds_its_environments_from_a_clean_home(tmp_path: Path) -> None:
    """The command of README.md. Only uv's cache is shared."""
    command = "uv tool install . --constraints xsft/locks/xsft.txt"
    assert f"\n{command}\n" in (CHECKOUT / "README.md").read_text(encoding="utf-8")
    cache = run(find_uv_bin(), "cache", "dir", cwd=tmp_path).strip()
    inherited = {
        name: value for name, value in uv_environment(os.environ).items() if not name.startswith(("XDG_", "XSFT_"))
    }
    env = inherited | {"HOME": str(tmp_path), "UV_CACHE_DIR": cache, "UV_PYTHON_DOWNLOADS": "never"}
    argv = (find_uv_bin(), *command.split()[1:])
    subprocess.run(argv, env=env, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    xsft = str(tmp_path / ".local/bin/xsft")
    done = subprocess.run((xsft, "setup", "xpk"), env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"xpk 1.16.0: {tmp_path}/.cache/xsft/envs/xpk-" in done.stdout
