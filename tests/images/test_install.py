"""The script that fills the deps image: a pip.conf says where uv takes packages from."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.images.tiny import BUILD


@pytest.fixture
def install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", BUILD / "install.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings(install: ModuleType, text: str, folder: Path) -> dict[str, str]:
    conf = folder / "pip.conf"
    conf.write_text(text, encoding="utf-8")
    return dict(install.uv_settings(install.pip_settings(str(conf))))


def test_indexes_and_what_goes_with_them_are_carried_over(install: ModuleType, tmp_path: Path) -> None:
    text = """[global]
index-url = https://user:p%40ss@first.example/simple
extra-index-url =
    https://second.example/simple
    https://third.example/simple
trusted_host = first.example
timeout = 7
unknown = 1
"""
    found = settings(install, text, tmp_path)
    assert {name: value for name, value in found.items() if name not in ALWAYS} == {
        "UV_DEFAULT_INDEX": "https://user:p%40ss@first.example/simple",
        "UV_INDEX": "https://second.example/simple https://third.example/simple",
        "UV_INSECURE_HOST": "first.example",
        "UV_HTTP_TIMEOUT": "7",
    }


def test_a_section_for_install_wins(install: ModuleType, tmp_path: Path) -> None:
    text = "[install]\nindex-url = https://one.example\n[global]\nindex-url = https://two.example\n"
    assert settings(install, text, tmp_path)["UV_DEFAULT_INDEX"] == "https://one.example"


@pytest.mark.parametrize("path", ["", "/no/such/file"])
def test_without_a_pip_conf_nothing_is_set(install: ModuleType, path: str) -> None:
    assert install.uv_settings(install.pip_settings(path)).keys() == ALWAYS


ALWAYS = {"UV_LINK_MODE", "UV_INDEX_STRATEGY"}
