"""The packages of an image are read once, from the image itself; here a stand-in for `docker run`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.image.materials import file, recipe
from tests.replacing import replace
from xsft.effects.images.installed import thin_step
from xsft.image.model import BuildStep
from xsft.machine.process import own_environment

DOCKER = """\
#!{python}
import os, subprocess, sys
open({log!r}, "a").write("run\\n")
program = sys.argv[sys.argv.index("-c") + 1]
sys.path.insert(0, {site!r})
sys.argv = ["-c", "maxtext", "tunix"]
exec(program)
"""


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """Answers as an image would that has this site's package installed."""
    package = tmp_path / "site" / "maxtext"
    (package / "__pycache__").mkdir(parents=True)
    for name, text in {"__init__.py": "", "same.py": "1", "other.py": "1", "__pycache__/x.pyc": "1"}.items():
        (package / name).write_text(text)
    script = tmp_path / "docker"
    script.write_text(DOCKER.format(python=sys.executable, log=str(tmp_path / "log"), site=str(tmp_path / "site")))
    script.chmod(0o755)
    return script


@pytest.fixture
def step(tmp_path: Path) -> BuildStep:
    """A fork with one file as installed, one changed, one new."""
    place = tmp_path / "place.py"
    place.write_text("reads as-installed.txt")
    tree = {"__init__.py": b"", "same.py": b"1", "other.py": b"2", "new.py": b"3"}
    files = [file(f"maxtext/maxtext/{name}", content) for name, content in tree.items()]
    return replace(recipe().code, files=(file("place.py", source=str(place)), *files))


def thin(step: BuildStep, docker: Path, *, image_id: str = "sha256:1") -> BuildStep:
    return thin_step(step, image_id=image_id, docker=str(docker), env=own_environment(), cache=docker.parent / "cache")


def paths(step: BuildStep) -> list[str]:
    return sorted(f.path.removeprefix("maxtext/") for f in step.files)


def test_installed_files_are_left_out_and_listed_and_queried_once(step: BuildStep, docker: Path) -> None:
    for _ in range(2):
        sent = thin(step, docker)
        assert paths(sent) == sorted(
            ["as-installed.txt", "maxtext/__init__.py", "maxtext/new.py", "maxtext/other.py", "place.py"]
        )
        (listed,) = (f for f in sent.files if f.path == "maxtext/as-installed.txt")
        assert Path(listed.source).read_text() == "1 same.py\n"
        assert sent.tag == step.tag
    assert (docker.parent / "log").read_text() == "run\n"
    thin(step, docker, image_id="sha256:2")
    assert (docker.parent / "log").read_text() == "run\nrun\n"


def test_a_torn_file_of_the_cache_is_rewritten(step: BuildStep, docker: Path) -> None:
    sent = thin(step, docker)
    for torn in (docker.parent / "cache").iterdir():
        torn.write_text('{"maxtext": {"sa')
    for _ in range(2):
        again = thin(step, docker)
        assert paths(again) == paths(sent)
        assert Path(again.files[-1].source).read_text() == "1 same.py\n"
    assert (docker.parent / "log").read_text() == "run\nrun\n"


def test_thin_sends_all_files_if_the_image_cannot_be_read(step: BuildStep, docker: Path) -> None:
    docker.write_text("#!/bin/sh\nexit 1\n")
    assert thin(step, docker) == step
    docker.unlink()
    assert thin(step, docker) == step


def test_thin_sends_all_files_if_the_dockerfile_is_unknown(step: BuildStep, docker: Path) -> None:
    Path(step.files[0].source).write_text("copies all")
    assert thin(step, docker) == step
    assert not (docker.parent / "log").exists()


def test_thin_does_not_start_docker_without_a_fork(docker: Path) -> None:
    assert thin(recipe().code, docker) == recipe().code
    assert not (docker.parent / "log").exists()
