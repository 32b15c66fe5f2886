"""The real deps image: MaxText 0.2.5 for TPU post-training, built from the lock."""

from __future__ import annotations

import json
import re

import pytest

from tests.engine.daemon import Engine
from tests.images.tiny import BUILD

pytestmark = pytest.mark.engine

LIST = """
import importlib.metadata as m, json, re
print(json.dumps({re.sub("[-_.]+", "-", d.name).lower(): d.version for d in m.distributions()}))
"""
TRAINER = """
import getpass, importlib.metadata, pathlib, tempfile
import maxtext.trainers.post_train.sft.train_sft
pathlib.Path.home().joinpath("written").touch()
print(getpass.getuser(), importlib.metadata.version("libtpu"))
"""


def test_image_holds_exactly_the_packages_of_the_lock(engine: Engine, deps_image: str) -> None:
    """So two images of one lock hold the same, whenever they are built."""
    lock = dict(
        re.findall(r"^([a-z0-9-]+)==(\S+)", (BUILD / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    document = json.loads(engine.docker("run", "--rm", deps_image, "python3", "-c", LIST).stdout)
    assert document.pop("pip")  # the base's
    assert document == lock


def test_trainer_imports_in_the_image_as_any_user(engine: Engine, deps_image: str) -> None:
    """As `docker run --user` starts it. tests/contract/test_image_real.py trains as root, who XPK starts it as."""
    user = ("--user", "12345:12345")
    output = engine.docker("run", "--rm", "--network", "none", *user, deps_image, "python3", "-c", TRAINER)
    assert output.stdout.splitlines()[-1] == "xsft 0.0.44"
