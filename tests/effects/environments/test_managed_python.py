"""The Python that uv installs if this machine has none that fits, starting from a bare file system."""

from __future__ import annotations

import ast
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.effects.environments.bare import MANAGED, bare_root, checkout, python_server, run_in
from xsft.effects.environments import managed_python

SOURCE = Path(managed_python.__file__)


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with python_server(tmp_path_factory.mktemp("served")) as url:
        yield url


@dataclass(frozen=True)
class Demo:
    checkout: Path
    done: subprocess.CompletedProcess[str]
    seconds: float


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[Demo]]:
    """A `make demo` whose Python cannot be downloaded. It waits for its time-outs while other tests run."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(unreachable_demo, tmp_path_factory.mktemp("demo"))


def unreachable_demo(folder: Path) -> Demo:
    here, root = checkout(folder / "xsft"), bare_root(folder / "root", (3, 11))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        downloads = f"http://127.0.0.1:{silent.getsockname()[1]}/downloads.json"
        began = time.monotonic()
        done = run_in(root, "make", "demo", cwd=here, env={"UV_PYTHON_DOWNLOADS_JSON_URL": downloads})
    return Demo(here, done, time.monotonic() - began)


def test_the_bootstrap_file_parses_as_python_3_9() -> None:
    ast.parse(SOURCE.read_text(), feature_version=(3, 9))


@pytest.mark.contract
@pytest.mark.usefixtures("demo")  # it waits meanwhile
def test_setup_downloads_python_3_12_if_only_an_older_one_is_installed(tmp_path: Path, downloads: str) -> None:
    here, root = checkout(tmp_path / "xsft"), bare_root(tmp_path / "root", (3, 9))
    managed = here / "home/.local/share/uv/python"
    env = {"UV_PYTHON_DOWNLOADS_JSON_URL": downloads, "LD_LIBRARY_PATH": f"{managed}/{MANAGED}/lib"}
    done = run_in(root, "make", "setup", cwd=here, env=env)
    assert done.returncode == 0, done.stderr
    assert "creating .venv with Python 3.12." in done.stderr
    assert (here / ".venv" / "bin" / "xsft").is_file()
    assert (here / ".venv/bin/python").resolve().is_relative_to(managed.resolve())
    assert not (here / "home/.local/bin").exists()


@pytest.mark.contract
def test_the_demo_ends_in_20_s_with_both_fixes_if_python_cannot_be_downloaded(demo: Future[Demo]) -> None:
    ended = demo.result()
    assert ended.seconds < 120  # on a busy machine; uv's own limits add up to minutes
    assert ended.done.returncode == 2
    assert "Python 3.12 could not be downloaded" in ended.done.stderr
    assert "Either install Python 3.12" in ended.done.stderr
    assert "UV_PYTHON_INSTALL_MIRROR" in ended.done.stderr
    assert not (ended.checkout / ".venv").exists()
