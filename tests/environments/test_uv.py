from __future__ import annotations

from pathlib import Path

from xsft.environments.uv import PATIENCE, python_path, uv_environment


def test_a_pip_mirror_is_passed_to_uv_unless_uv_has_its_own() -> None:
    environment = uv_environment({"PIP_INDEX_URL": "https://mirror.example/simple"})
    with_own_index = uv_environment(
        {"PIP_INDEX_URL": "https://mirror.example/simple", "UV_DEFAULT_INDEX": "https://own.example"}
    )
    assert environment["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert with_own_index["UV_DEFAULT_INDEX"] == "https://own.example"


def test_uv_environment_drops_other_environments_and_keeps_the_rest() -> None:
    environment = {"VIRTUAL_ENV": "x", "PYTHONPATH": "y", "CONDA_PREFIX": "z", "HTTPS_PROXY": "http://proxy.example"}
    proxy = {"HTTPS_PROXY": "http://proxy.example", "NO_COLOR": "1", "PATH": python_path(environment)}
    assert uv_environment(environment, bundles=()) == {**PATIENCE, **proxy}


def test_a_pyenv_python_is_found_behind_its_shim(tmp_path: Path) -> None:
    versions = tmp_path / "versions"
    for version in ("3.9.18", "3.12.1"):
        (versions / version / "bin").mkdir(parents=True)
    path = python_path({"PATH": "/usr/bin", "PYENV_ROOT": str(tmp_path)}).split(":")
    assert path[0] == "/usr/bin"
    assert {str(versions / "3.9.18/bin"), str(versions / "3.12.1/bin")} <= set(path)


def test_the_certificates_of_the_system_are_used_unless_uv_is_configured(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.crt"
    assert "UV_SYSTEM_CERTS" not in uv_environment({}, bundles=(bundle,))
    bundle.touch()
    assert uv_environment({}, bundles=(bundle,))["UV_SYSTEM_CERTS"] == "1"
    assert uv_environment({"UV_SYSTEM_CERTS": "0"}, bundles=(bundle,))["UV_SYSTEM_CERTS"] == "0"
