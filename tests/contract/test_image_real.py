"""The real post-training image, made by `xsft image build`; the real trainer runs in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.imagelab import Project, environment
from tests.engine.base import BaseImage
from tests.engine.daemon import Engine
from tests.localruns import WORKLOADS
from tests.stories import ROOT
from tests.until import until
from xsft.machine.paths import own_cache

pytestmark = pytest.mark.engine

WITHIN_S = 480.0
"""Half a minute on a machine that does nothing else."""


@pytest.fixture
def project(engine: Engine, base_image: BaseImage, tmp_path: Path) -> Project:
    """With a copy of images/post_training. The packages are those of `deps_image`: the engine's cache has them then.

    Of this user's cache it has the compiled programs only: no environment of MaxText's.
    """
    shutil.copytree(ROOT / "images" / "post_training", tmp_path / "images" / "post_training")
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "hooks.py").write_text("SAID = 'mine'\n", encoding="utf-8")
    (tmp_path / "pip.conf").write_text(base_image.pip_conf, encoding="utf-8")
    (tmp_path / "cache").mkdir()
    (own_cache() / "jax").mkdir(exist_ok=True)
    (tmp_path / "cache" / "jax").symlink_to(own_cache() / "jax")
    return Project(tmp_path, environment(tmp_path, engine))


def test_the_real_image_is_built_trains_and_resumes(project: Project, engine: Engine, base_image: BaseImage) -> None:
    """Small images are pushed and pulled by the digest in the lock: test_image_push, test_make_image_push."""
    done = project.xsft(
        *("image", "build", f"--base={base_image.reference}", "--code=mine", "--pip-config=pip.conf", "--json")
    )
    assert done.returncode == 0, done.stderr
    ref = f"localhost/xsft/post-training:{json.loads(done.stdout)['code']['tag']}"
    output = engine.docker("run", "--rm", ref, "python3", "-c", "import hooks; print(hooks.SAID)")
    assert output.stdout == "mine\n"
    document = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text(encoding="utf-8"))
    document |= {"output": str(project.folder / "runs"), "image": {"ref": ref}}
    (project.folder / "tiny.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")

    child = project.start("submit", "--json", "tiny.yaml")
    saved = project.folder / "runs" / "tiny-local" / "checkpoints" / "10" / "_CHECKPOINT_METADATA"
    until(lambda: saved.exists() or child.poll() is not None, within_s=WITHIN_S)
    assert child.poll() is None, child.communicate()
    child.send_signal(signal.SIGINT)
    status, _, told = finished(child)
    assert status == 130, told
    assert "the trainer is stopped" in told
    assert engine.docker("ps", "--all", "--quiet").stdout == ""

    status, document, told = finished(project.start("submit", "--json", "tiny.yaml"))
    assert (status, document["action"]) == (0, "attempt"), told
    assert document["resumed_from"] in {10, 20, 30}
    result = document["result"]
    assert result["steps"] == 40
    assert result["last_loss"] < result["first_loss"] - 0.5
    assert document["private_pids"]
    assert "step 40/40" in told
    checkpoints = [Path(path) for path in document["checkpoints"]]
    assert [path.name for path in checkpoints][-1] == "40"
    assert {(path.stat().st_uid, path.stat().st_gid) for path in checkpoints} == {(os.getuid(), os.getgid())}
    assert not (project.folder / "cache" / "envs").exists()
    assert engine.docker("ps", "--all", "--quiet").stdout == ""
    status, repeated, _ = finished(project.start("submit", "--json", "tiny.yaml"))
    assert (status, repeated["action"]) == (0, "finished")


def finished(child: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    try:
        out, output = child.communicate(timeout=WITHIN_S)
    finally:
        child.send_signal(signal.SIGINT)  # nothing to one that has ended
        child.wait()
    return child.returncode, json.loads(out) if out else {}, output
