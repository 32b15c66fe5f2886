from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from xsft.effects.environments import interpreters
from xsft.effects.environments.interpreters import Interpreter

SHIM = "#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n"


def says(version: str, path: Path, *, makes_venv: bool = True, usable: bool = True) -> str:
    """A script that answers the probe like a Python would."""
    answer = (
        f'{{"path": "{path}", "version": [{version}], "usable": {_json(usable)}, "makes_venv": {_json(makes_venv)}}}'
    )
    return f"#!/bin/sh\necho '{answer}'\n"


def _json(value: bool) -> str:
    return str(value).lower()


def put(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    return {"PATH": f"{tmp_path / 'bin'}"}


def test_the_running_interpreter_is_described_correctly() -> None:
    found = interpreters.probe(Path(sys.executable), env=dict(os.environ))
    assert found is not None
    assert found.version == sys.version_info[:3]


def test_a_pyenv_python_is_found_behind_a_failing_shim(tmp_path: Path, env: Mapping[str, str]) -> None:
    put(tmp_path / "bin" / "python3.99", SHIM)
    real = tmp_path / ".pyenv" / "versions" / "3.99.1" / "bin" / "python3"
    put(real, says("3, 99, 1", real))
    found = interpreters.find_interpreter(((3, 99),), env=env, home=tmp_path)
    assert found == Interpreter(path=real, version=(3, 99, 1), makes_venv=True)


@pytest.mark.parametrize("variable", ["UV_PYTHON_INSTALL_DIR", "PYENV_ROOT", "XDG_DATA_HOME", ""])
def test_managed_pythons_are_found_through_their_environment_variables(
    tmp_path: Path, env: Mapping[str, str], variable: str
) -> None:
    below = {"PYENV_ROOT": "versions", "XDG_DATA_HOME": "uv/python", "": ".local/share/uv/python"}.get(variable, "")
    root = tmp_path / ("moved" if variable else "")
    real = root / below / "cpython-3.99.2-linux" / "bin" / "python3"
    put(real, says("3, 99, 2", real))
    moved = {variable: str(root)} if variable else {}
    found = interpreters.find_interpreter(((3, 99),), env={**env, **moved}, home=tmp_path)
    assert found is not None
    assert found.path == real


def test_the_preferred_series_is_chosen_in_any_order(tmp_path: Path, env: Mapping[str, str]) -> None:
    second = put(tmp_path / "bin" / "python3", says("3, 98, 0", tmp_path / "bin" / "python3"))
    first = tmp_path / ".pyenv" / "versions" / "3.99.1" / "bin" / "python3"
    put(first, says("3, 99, 1", first))
    chosen = interpreters.find_interpreter(((3, 99), (3, 98)), env=env, home=tmp_path)
    assert chosen is not None
    assert chosen.path == first
    first.unlink()
    fallback = interpreters.find_interpreter(((3, 99), (3, 98)), env=env, home=tmp_path)
    assert fallback is not None
    assert fallback.path == second


@pytest.mark.parametrize(
    "script",
    [SHIM, "#!/bin/sh\necho nonsense\n", "#!/no/such/interpreter\n", says("3, 99, 0", Path("x"), usable=False)],
)
def test_a_program_that_is_not_cpython_is_no_interpreter(tmp_path: Path, env: Mapping[str, str], script: str) -> None:
    assert interpreters.probe(put(tmp_path / "python3", script), env=env) is None


def test_find_interpreter_is_none_and_how_to_get_names_the_version(tmp_path: Path, env: Mapping[str, str]) -> None:
    assert interpreters.find_interpreter(((3, 99),), env=env, home=tmp_path) is None
    assert "pyenv install 3.99" in interpreters.how_to_get((3, 99))


def test_venv_package_is_named_after_the_series() -> None:
    bare = Interpreter(path=Path("python3"), version=(3, 11, 2), makes_venv=False)
    assert interpreters.venv_package(bare) == "python3.11-venv"
