"""The real post-training image, made and pushed by `xsft image push`, pulled by the lock's digest, and run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.contract.imagelab import Project, environment
from tests.engine.base import BaseImage
from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry
from tests.localruns import WORKLOADS
from tests.stories import ROOT

pytestmark = pytest.mark.engine

IMPORT = "import maxtext.trainers.post_train.sft.train_sft, hooks; print(hooks.SAID)"


@pytest.fixture
def project(engine: Engine, base_image: BaseImage, tmp_path: Path) -> Project:
    """With a copy of images/post_training. The packages are those of `deps_image`: the engine's cache has them then."""
    shutil.copytree(ROOT / "images" / "post_training", tmp_path / "images" / "post_training")
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "hooks.py").write_text("SAID = 'mine'\n", encoding="utf-8")
    (tmp_path / "pip.conf").write_text(base_image.pip_conf, encoding="utf-8")
    return Project(tmp_path, environment(tmp_path, engine))


def test_it_is_pushed_pulled_by_the_locks_digest_and_trains(
    project: Project, engine: Engine, base_image: BaseImage, registry: Registry
) -> None:
    where = f"{registry.address}/{registry.repository}"
    options = (f"--registry={where}", f"--base={base_image.reference}", "--code=mine", "--pip-config=pip.conf")
    made = pushed(project, *options)
    locked = json.loads((project.folder / "images" / "post_training.lock.json").read_text(encoding="utf-8"))
    (row,) = locked["images"].values()
    assert made["ref"] == f"{where}/post-training@{row['digest']}"
    assert (row["maxtext"], row["options"]["code"]) == ("0.2.5", ["mine"])

    names = (f"{where}/post-training", "localhost/xsft/post-training")
    tags = (f"{name}:{made[part]['tag']}" for name in names for part in ("deps", "code"))
    engine.docker("rmi", "--force", *tags)
    engine.docker("pull", made["ref"])
    assert engine.docker("run", "--rm", made["ref"], "python3", "-c", IMPORT).stdout.splitlines()[-1] == "mine"

    (project.folder / "tiny.yaml").write_text(yaml.safe_dump(tiny(project.folder)), encoding="utf-8")
    done = subprocess.run(
        (sys.executable, "-m", "xsft", "submit", "--json", "tiny.yaml"),
        env=dict(project.env), cwd=project.folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["steps"] == 40

    (project.folder / "mine" / "hooks.py").write_text("SAID = 'again'\n", encoding="utf-8")
    again = pushed(project, *options)
    assert again["deps"]["tag"] == made["deps"]["tag"]
    assert again["ref"] != made["ref"]


def pushed(project: Project, *options: str) -> dict[str, object]:
    done = project.xsft("image", "push", *options, "--json", timeout_s=1800)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def tiny(folder: Path) -> dict[str, object]:
    """The tiny workload, in the image by its name: the only registry of its lock."""
    document = dict(yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text(encoding="utf-8")))
    return {**document, "output": str(folder / "runs"), "image": {"name": "post_training"}}
