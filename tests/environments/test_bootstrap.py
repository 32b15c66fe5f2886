"""`make setup`, starting from a bare file system or a checkout whose .venv is broken."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.environments.bare import MANAGED, bare_root, checkout, prefix_of, python_server, run_in
from xsft.environments import bootstrap
from xsft.environments.bootstrap import SetupError
from xsft.environments.environments import SPECS
from xsft.environments.uv import PATIENCE

CHECKOUT = Path(__file__).parents[2]


def put(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def shell_bootstrap(folder: Path, pythons: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run .ci/bootstrap in `folder`, with only these programs on PATH."""
    for name, script in pythons.items():
        put(folder / "bin" / name, script)
    (folder / ".ci").mkdir()
    shutil.copy(CHECKOUT / ".ci" / "bootstrap", folder / ".ci" / "bootstrap")
    (folder / "bin" / "dirname").symlink_to(shutil.which("dirname") or "dirname")
    env = {"PATH": str(folder / "bin"), "HOME": str(folder)}
    return subprocess.run(
        ("/bin/sh", ".ci/bootstrap"), cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_the_lock_of_uv_is_its_entry_in_the_lock_of_development() -> None:
    entry = (CHECKOUT / bootstrap.UV_LOCK).read_text().partition("uv==")[2]
    assert f"\nuv=={entry}" in (CHECKOUT / bootstrap.LOCK).read_text()
    assert "\n    --hash=sha256:" in entry


@pytest.mark.parametrize("series", ["3.9", "3.10", "3.13"])
def test_the_bootstrap_needs_only_the_standard_library_of_3_9(series: str) -> None:
    python = prefix_of(series) / "bin" / f"python{series}"
    module = "xsft.environments.bootstrap"
    code = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); import {module}; print('loaded')"
    done = subprocess.run((python, "-I", "-S", "-B", "-c", code), capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("loaded\n", "")


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 127\n", "#!/bin/sh\nexit 1\n"])
def test_the_shell_bootstrap_exits_3_without_a_fitting_python(tmp_path: Path, script: str) -> None:
    """`exit 127` is a version manager's shim without a version, `exit 1` a Python older than 3.9."""
    done = shell_bootstrap(tmp_path, dict.fromkeys(("python3", "python"), script))
    assert done.returncode == 3
    assert "no Python >= 3.9 with pip or venv runs here" in done.stderr
    assert "python3-venv" in done.stderr


@pytest.mark.contract
def test_the_shell_bootstrap_skips_shims_and_starts_with_any_python(tmp_path: Path) -> None:
    put(tmp_path / "xsft/environments/bootstrap.py", "import sys; print(sys.version_info[:2])")
    python = prefix_of("3.9") / "bin" / "python3.9"
    shim = "#!/bin/sh\nexit 127\n"
    done = shell_bootstrap(tmp_path, {"python3": shim, "python3.9": f'#!/bin/sh\nexec {python} "$@"\n'})
    assert done.stdout == "(3, 9)\n", done.stderr


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the lock and no .venv."""
    monkeypatch.chdir(tmp_path)
    for lock in (bootstrap.LOCK, bootstrap.UV_LOCK):
        lock.parent.mkdir(parents=True)
        shutil.copy(CHECKOUT / lock, lock)
    return tmp_path


@pytest.mark.contract
def test_the_venv_gets_python_3_12_although_another_runs_the_bootstrap(here: Path) -> None:
    newer = prefix_of("3.13") / "bin"
    uv = Path(sys.executable).with_name("uv")
    code = f"from xsft.environments import bootstrap; bootstrap.create_venv({str(uv)!r})"
    env = os.environ | {"PATH": f"{newer}:/usr/bin:/bin", "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run((newer / "python3.13", "-c", code), cwd=here, env=env, check=True)
    assert "version_info = 3.12" in Path(".venv/pyvenv.cfg").read_text()
    assert {spec.pythons[0] for spec in SPECS.values()} == {"3.12"}


@pytest.mark.contract
@pytest.mark.usefixtures("here")
def test_a_broken_venv_is_created_again_and_another_folder_is_kept() -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    put(Path(".venv/bin/python"), "not a program")
    with pytest.raises(SetupError):  # without pyvenv.cfg it may be anything
        bootstrap.create_venv(uv)
    assert Path(".venv/bin/python").read_text() == "not a program"
    Path(".venv/pyvenv.cfg").touch()
    assert not bootstrap.venv_works()
    bootstrap.create_venv(uv)
    assert bootstrap.venv_works()


@pytest.fixture
def silent_index() -> Iterator[str]:
    """A server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple"


@pytest.mark.contract
def test_pip_fails_with_both_fixes_if_the_index_does_not_answer(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(SetupError, match="ended with status 1") as caught:
        bootstrap.find_or_install_uv(here)
    assert "connect to the network, or set PIP_INDEX_URL to your mirror" in caught.value.fix
    assert {"--timeout=8", "--retries=1"} <= set(bootstrap.PIP), "16 of the 20 s until the message"


@pytest.mark.contract
def test_uv_fails_with_both_fixes_if_the_index_stays_silent(
    here: Path, silent_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"UV_DEFAULT_INDEX": silent_index, "UV_CACHE_DIR": str(here / "cache")}
    for name, value in {**settings, "UV_HTTP_TIMEOUT": "1", "UV_HTTP_RETRIES": "0"}.items():
        monkeypatch.setenv(name, value)
    uv = str(Path(sys.executable).with_name("uv"))
    bootstrap.create_venv(uv)
    with pytest.raises(SetupError, match="uv ended with status") as caught:
        bootstrap.install_locked(uv)
    assert "connect to the network, or set PIP_INDEX_URL to your mirror" in caught.value.fix
    assert int(PATIENCE["UV_HTTP_TIMEOUT"]) * (int(PATIENCE["UV_HTTP_RETRIES"]) + 1) <= 16


def test_the_bootstrap_requires_the_python_of_pyproject() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.11"
    assert "(3, 11)" in bootstrap.IN_VENV


@pytest.mark.contract
def test_setup_downloads_python_3_12_if_only_an_older_one_is_installed(tmp_path: Path) -> None:
    here, root = checkout(tmp_path / "xsft"), bare_root(tmp_path / "root", "3.9")
    managed = here / "home/.local/share/uv/python"
    served = tmp_path / "served"
    served.mkdir()
    with python_server(served) as downloads:
        env = {"UV_PYTHON_DOWNLOADS_JSON_URL": downloads, "LD_LIBRARY_PATH": f"{managed}/{MANAGED}/lib"}
        done = run_in(root, "make", "setup", cwd=here, env=env)
    assert done.returncode == 0, done.stderr
    assert "no Python >= 3.11 was found: uv installs 3.12" in done.stderr
    assert (here / ".venv" / "bin" / "xsft").is_file()
    assert (here / ".venv/bin/python").resolve().is_relative_to(managed.resolve())
    assert not (here / "home/.local/bin").exists()


@pytest.mark.contract
def test_setup_ends_in_30_s_with_both_fixes_if_python_cannot_be_downloaded(tmp_path: Path, silent_index: str) -> None:
    here, root = checkout(tmp_path / "xsft"), bare_root(tmp_path / "root", "3.9")
    env = {"UV_PYTHON_DOWNLOADS_JSON_URL": silent_index}
    began = time.monotonic()
    done = run_in(root, "make", "setup", cwd=here, env=env)
    assert time.monotonic() - began < 120  # on a busy machine; uv's own limits add up to minutes
    assert done.returncode == 2
    assert "Either install Python 3.12" in done.stderr
    assert "UV_PYTHON_INSTALL_MIRROR" in done.stderr
    assert not (here / ".venv").exists()
