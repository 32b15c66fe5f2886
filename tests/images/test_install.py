"""The script that installs packages into the deps image; pip.conf states uv's package index."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType

import pytest
from uv import find_uv_bin

from tests.fakes.loopback import serving_http
from tests.images.tiny import BUILD, install_script, python_with_pip
from xsft.image.code_layer import decode_record
from xsft.image.failures import FailedRequest, explain_failure


@pytest.fixture
def install() -> ModuleType:
    return install_script()


def settings(install: ModuleType, text: str, folder: Path) -> dict[str, str]:
    conf = folder / "pip.conf"
    conf.write_text(text, encoding="utf-8")
    return dict(install.uv_settings(str(conf)))


def test_indexes_and_network_options_are_passed_to_uv(install: ModuleType, tmp_path: Path) -> None:
    text = """[global]
index-url = https://user:p%40ss@first.example/simple
extra-index-url =
    https://second.example/simple
    https://third.example/simple
trusted_host = first.example
timeout = 7
retries = 2
unknown = 1
"""
    assert settings(install, text, tmp_path) == {
        "UV_LINK_MODE": "copy",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_RETRIES": "2",
        "UV_DEFAULT_INDEX": "https://user:p%40ss@first.example/simple",
        "UV_INDEX": "https://second.example/simple https://third.example/simple",
        "UV_INSECURE_HOST": "first.example",
        "UV_HTTP_TIMEOUT": "7",
    }


def test_install_section_of_pip_conf_wins_over_global(install: ModuleType, tmp_path: Path) -> None:
    text = "[install]\nindex-url = https://one.example\n[global]\nindex-url = https://two.example\n"
    assert settings(install, text, tmp_path)["UV_DEFAULT_INDEX"] == "https://one.example"


@pytest.mark.parametrize("path", ["", "/no/such/file"])
def test_uv_settings_without_pip_conf_set_only_the_link_mode(install: ModuleType, path: str) -> None:
    assert install.uv_settings(path) == {"UV_LINK_MODE": "copy"}


@pytest.fixture(scope="module")
def refusing() -> Iterator[str]:
    """Address of an index whose /STATUS/simple answers with that status; /200 lists one version of every package."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, name = int(self.path.split("/")[1]), self.path.strip("/").rpartition("/")[2]
            body = f'<a href="/{name}-1.0-py3-none-any.whl">{name}-1.0-py3-none-any.whl</a>'.encode()
            self.send_response(status)
            self.send_header("WWW-Authenticate", 'Basic realm="tests"')
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving_http(Handler) as url:
        yield url.removeprefix("http://")


@pytest.fixture(scope="module")
def pip_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_with_pip(tmp_path_factory.mktemp("pip"))


@pytest.mark.contract
@pytest.mark.parametrize("tool", ["pip", "uv"])
@pytest.mark.parametrize(
    ("index", "id"),
    [
        ("http://127.0.0.1:1/simple", "build-no-network"),
        ("https://xsft-tests-nowhere.invalid/simple", "build-no-network"),
        ("http://me:{secret}@{}/401/simple", "build-index-login"),
        ("http://{}/401/simple", "build-index-login"),
        ("http://{}/403/simple", "build-index-login"),
        ("http://{}/500/simple", "build-no-network"),
        ("http://{}/404/simple", "build-package-missing"),
        ("http://{}/200/simple", "build-package-missing"),
    ],
)
def test_output_of_real_pip_and_uv_is_explained(
    install: ModuleType, pip_python: Path, refusing: str, tmp_path: Path, tool: str, index: str, id: str
) -> None:
    secret = secrets.token_hex()
    (tmp_path / "installer.txt").write_text(f"six==9.9 --hash=sha256:{'0' * 64}\n")
    shutil.copy(BUILD / "install.py", tmp_path)
    lines = (f"index-url = {index.format(refusing, secret=secret)}", "retries = 0")
    (tmp_path / "pip.conf").write_text("\n".join(("[global]", *lines)))
    uv = (find_uv_bin(), *install.UV, "--python", sys.executable, "--target", str(tmp_path))
    argv = {
        "pip": (str(pip_python), "install.py", "prepare"),
        "uv": (*uv, *install.LOCKED, "--requirement", "installer.txt"),
    }[tool]
    pip_conf = {"PIP_CONFIG_FILE": "pip.conf", **install.uv_settings(str(tmp_path / "pip.conf"))}
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    env = {**clean, **pip_conf, "HOME": str(tmp_path), "NO_PROXY": "127.0.0.1,.invalid", "UV_NO_CACHE": "1"}
    done = subprocess.run(
        argv, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    words = "\n".join(f"#5 9.1 {line}" for line in done.stdout.splitlines())
    error = explain_failure(words, FailedRequest(what="build the deps image", stage="build"))
    assert error.problem_id == id, done.stdout
    assert secret not in done.stdout


def test_the_record_names_the_lock_and_every_installed_file(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    for name, text in {"maxtext/__init__.py": "", "maxtext/a/b.py": "1", "maxtext/__pycache__/b.pyc": "1"}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    (tmp_path / "lock.txt").write_text("jax==1\n")
    monkeypatch.syspath_prepend(str(site))
    install.record(str(tmp_path / "lock.txt"), str(tmp_path / "deps.json"))
    record = decode_record((tmp_path / "deps.json").read_bytes())
    assert record
    assert record.lock_sha256 == hashlib.sha256(b"jax==1\n").hexdigest()
    assert record.cache_tag == sys.implementation.cache_tag
    assert record.packages == {
        "maxtext": {"__init__.py": hashlib.sha256(b"").hexdigest(), "a/b.py": hashlib.sha256(b"1").hexdigest()}
    }
