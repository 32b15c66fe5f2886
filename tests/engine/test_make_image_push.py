"""The very command: `make image push` in a clean copy of this repository, with a real engine and a real registry.

Only what is gigabytes is small: the base is the tests' own, and the lock names two packages of a few kilobytes.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.engine.base import BaseImage
from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry
from tests.gitrepo import git, made_in
from tests.images.tiny import Index, index, uv_wheel
from xsft.machine.paths import own_cache
from xsft.workers.delivery import ARCHIVE, FOLDER_IN_IMAGE, programs_digest

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
LOCK = "images/post_training.lock.json"
WITHIN_S = 400.0


@dataclass(frozen=True, kw_only=True)
class MakeImagePush:
    folder: Path
    env: Mapping[str, str] = field(repr=False)
    arguments: tuple[str, ...]

    def __call__(self) -> str:
        """Return its output on both streams."""
        argv = (shutil.which("make") or "make", "image", "push", *self.arguments)
        done = subprocess.run(
            argv, cwd=self.folder, env=self.env, text=True, timeout=WITHIN_S, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def tiny_index(engine: Engine) -> Iterator[Index]:
    login = f"builder:{secrets.token_hex(16)}"
    with index(engine.gateway, login=login, uv=uv_wheel(own_cache() / "tests-engine")) as running:
        yield running


@pytest.fixture
def clone(tmp_path: Path, tiny_index: Index) -> Path:
    """Return a fresh clone: the files that git tracks, and no .venv."""
    folder = tmp_path / "clone"
    for name in filter(None, git(ROOT, "ls-files", "-z").split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    (folder / "images" / "post_training" / "requirements.txt").write_text(tiny_index.lock(), encoding="utf-8")
    git(made_in(folder), "add", "--all")
    git(folder, "commit", "-q", "-m", "all")
    return folder


@pytest.fixture
def make(clone: Path, engine: Engine, base_image: BaseImage, tiny_index: Index, registry: Registry) -> MakeImagePush:
    conf = clone.parent / "pip.conf"
    conf.write_text(tiny_index.pip_conf(), encoding="utf-8")
    folders = {name: str(clone.parent / name) for name in ("XSFT_CACHE_DIR", "XSFT_STATE_DIR", "CLOUDSDK_CONFIG")}
    where = {name: engine.env[name] for name in ("DOCKER_HOST", "DOCKER_CONFIG")}
    env = {**os.environ, **where, **folders, "NO_GCE_CHECK": "true"}
    for inherited in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV", "PYTHONPATH"):
        env.pop(inherited, None)
    arguments = (
        f"REGISTRY={registry.address}/{registry.repository}",
        f"ARGS=--base={base_image.reference} --pip-config={conf}",
    )
    return MakeImagePush(folder=clone, env=env, arguments=arguments)


def test_make_image_push_locks_an_image_that_runs_and_a_second_call_does_nothing(
    make: MakeImagePush, clone: Path, engine: Engine, registry: Registry
) -> None:
    make_image_push = make()
    assert "pushed" in make_image_push
    repository = f"{registry.address}/{registry.repository}/post-training"
    locked = json.loads((clone / LOCK).read_text(encoding="utf-8"))["images"][repository]
    images_there = Registry(registry.address, f"{registry.repository}/post-training")
    assert locked["digest"] == images_there.digest(locked["code"])
    assert sorted(images_there.tags()) == sorted([locked["code"], locked["deps"]])
    assert locked["commit"] == git(clone, "rev-parse", "HEAD")
    assert git(clone, "status", "--porcelain") == f"?? {LOCK}"

    engine.docker(
        "rmi", "--force", *(f"{name}:{locked['code']}" for name in (repository, "localhost/xsft/post-training"))
    )
    ref = f"{repository}@{locked['digest']}"
    engine.docker("pull", ref)
    ran = engine.docker("run", "--rm", ref, "python3", "-c", "import maxtext.train as t; print(t.LOSS)")
    assert ran.stdout == "2\n"
    first_word = engine.docker("run", "--rm", ref, "sha256sum", f"{FOLDER_IN_IMAGE}/{ARCHIVE}").stdout.split()[0]
    assert first_word == locked["evaluate"] == programs_digest()

    before = (clone / LOCK).read_bytes()
    assert "nothing to push" in make()
    assert (clone / LOCK).read_bytes() == before
