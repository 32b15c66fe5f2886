from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effects.environments.bare import prefix_of
from tests.effects.environments.test_interpreters import put
from xsft.effects.environments import bootstrap
from xsft.effects.environments.environments import NAMES, environment_for
from xsft.effects.environments.interpreters import Interpreter
from xsft.effects.environments.uv import PATIENCE, find_uv
from xsft.errors import EnvironmentMissing

CHECKOUT = Path(__file__).parents[3]


def test_locked_uv_returns_the_version_and_hashes_of_the_lock() -> None:
    requirement, version = bootstrap.locked_uv(CHECKOUT / bootstrap.LOCK)
    assert requirement.startswith(f"uv=={version} \\\n    --hash=sha256:")
    assert requirement.count("==") == 1


def test_the_bootstrap_imports_only_the_standard_library() -> None:
    """The bootstrap runs before anything is installed."""
    module = "xsft.effects.environments.bootstrap"
    code = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); import {module}; print('loaded')"
    bare = (sys.executable, "-I", "-S", "-c", code)
    done = subprocess.run(bare, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("loaded\n", "")


def test_lacks_venv_names_the_package_for_a_python_without_pip() -> None:
    bare = Interpreter(path=Path("/usr/bin/python3.11"), version=(3, 11, 2), makes_venv=False)
    problem = bootstrap.lacks_venv([bare])
    assert "/usr/bin/python3.11 lacks venv or pip" in problem.message
    assert "apt install python3.11-venv" in problem.fix


def test_lacks_venv_says_how_to_install_python() -> None:
    assert "install Python 3.12" in bootstrap.lacks_venv([]).fix


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 127\n", "#!/bin/sh\nexit 1\n"])
def test_the_shell_bootstrap_exits_3_without_a_fitting_python(tmp_path: Path, script: str) -> None:
    """`exit 127` is a version manager's shim without a version, `exit 1` a Python older than 3.9."""
    for name in ("python3", "python"):
        put(tmp_path / "bin" / name, script)
    (tmp_path / ".ci").mkdir()
    shutil.copy(CHECKOUT / ".ci" / "bootstrap", tmp_path / ".ci" / "bootstrap")
    (tmp_path / "bin" / "dirname").symlink_to(shutil.which("dirname") or "dirname")
    env = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    done = subprocess.run(
        ("/bin/sh", ".ci/bootstrap"), cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "no Python >= 3.9 runs here" in done.stderr
    assert "python3-venv" in done.stderr


@pytest.mark.contract
def test_an_incomplete_venv_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python runs, but pip is missing or incomplete."""
    monkeypatch.chdir(tmp_path)
    bootstrap.LOCK.parent.mkdir(parents=True)
    bootstrap.LOCK.write_text("")
    Path("pyproject.toml").write_text("")
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", ".venv"), check=True)
    with pytest.raises(EnvironmentMissing, match="has no entry for uv"):  # the step after
        bootstrap.set_up()
    assert (
        subprocess.run((".venv/bin/python", "-m", "pip", "--version"), check=False, capture_output=True).returncode == 0
    )
    made = Path(".venv/pyvenv.cfg").stat().st_mtime_ns
    with pytest.raises(EnvironmentMissing, match="has no entry for uv"):
        bootstrap.set_up()
    assert Path(".venv/pyvenv.cfg").stat().st_mtime_ns == made


@pytest.fixture
def half_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has a .venv with this machine's Python, whose pip has no uv, and the lock."""
    monkeypatch.chdir(tmp_path)
    base = Path(sys.base_prefix) / "bin" / "python3"
    put(tmp_path / ".venv" / "bin" / "python", f'#!/bin/sh\nexec {base} "$@"\n')
    bootstrap.LOCK.parent.mkdir(parents=True)
    shutil.copy(CHECKOUT / bootstrap.LOCK, bootstrap.LOCK)


@pytest.fixture
def silent_index() -> Iterator[str]:
    """A server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple"


@pytest.mark.contract
@pytest.mark.usefixtures("half_set_up")
def test_pip_fails_with_both_fixes_if_the_index_does_not_answer(
    silent_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in ("http://127.0.0.1:9/simple", silent_index):
        monkeypatch.setenv("PIP_INDEX_URL", index)
        with pytest.raises(EnvironmentMissing, match="ended with status 1") as caught:
            bootstrap.install_uv(tries=("--timeout", "0.5", "--retries", "0"))
        assert "connect to the network, or set PIP_INDEX_URL to your mirror" in caught.value.fix
    timeout_s, retries = (int(bootstrap.TRIES[at]) for at in (1, 3))
    assert timeout_s * (retries + 1) <= 16, "of the 20 s until the message"


@pytest.mark.contract
@pytest.mark.usefixtures("half_set_up")
def test_uv_fails_with_both_fixes_if_the_index_stays_silent(
    silent_index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".venv" / "bin" / "uv").symlink_to(find_uv())
    monkeypatch.setenv("UV_DEFAULT_INDEX", silent_index)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(EnvironmentMissing, match="uv ended with status") as caught:
        bootstrap.install_locked()
    assert "connect to the network, or set PIP_INDEX_URL to your mirror" in caught.value.fix
    assert int(PATIENCE["UV_HTTP_TIMEOUT"]) * (int(PATIENCE["UV_HTTP_RETRIES"]) + 1) <= 16


@pytest.mark.contract
def test_the_shell_bootstrap_prefers_python_3_12_over_a_newer_python3(tmp_path: Path) -> None:
    said = tmp_path / "xsft/effects/environments/bootstrap.py"
    said.parent.mkdir(parents=True)
    said.write_text("import sys; print(sys.version_info[:2])")
    (tmp_path / ".ci").mkdir()
    shutil.copy(CHECKOUT / ".ci" / "bootstrap", tmp_path / ".ci" / "bootstrap")
    for name, minor in (("python3", (3, 13)), ("python3.12", (3, 12))):
        python = prefix_of(minor) / "bin" / f"python{minor[0]}.{minor[1]}"
        put(tmp_path / "bin" / name, f'#!/bin/sh\nexec {python} "$@"\n')
    (tmp_path / "bin" / "dirname").symlink_to(shutil.which("dirname") or "dirname")
    env = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    done = subprocess.run(
        ("/bin/sh", ".ci/bootstrap"), cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout == "(3, 12)\n", done.stderr
    assert {environment_for(name).pythons[0] for name in NAMES} == {(3, 12)}


def test_the_shell_bootstrap_requires_the_python_of_pyproject() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.11"
    assert "v >= (3, 11)" in (CHECKOUT / ".ci" / "bootstrap").read_text()
