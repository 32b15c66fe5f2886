"""Files, parts and recipes for the tests of images, made without a disk."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.replacing import replace
from xsft.image.model import Base, BuildOptions, ContextFile, DockerfilePart, Material, Recipe
from xsft.image.recipe import make_recipe

DIGEST = "sha256:" + "ab" * 32
OPTIONS = BuildOptions(image="post_training", registry="127.0.0.1:5000/team", maxtext="0.2.5")


def file(path: str, content: bytes = b"x", **changes: Any) -> ContextFile:
    found = ContextFile(path=path, kind="file", size=len(content), sha256=hashlib.sha256(content).hexdigest())
    return replace(found, **changes)


def material(**changes: Any) -> Material:
    deps = DockerfilePart(
        dockerfile="Dockerfile",
        args={"BASE_IMAGE": "python:3.12-slim", "BASE_DIGEST": None, "LOCK_SHA256": None, "MAXTEXT_VERSION": "0.2.5"},
        files=(file("Dockerfile"), file("requirements.txt", b"numpy==2.0")),
    )
    code = DockerfilePart(
        dockerfile="code.Dockerfile",
        args={"DEPS_IMAGE": None, "REVISION": None, "DIRTY": None, "MAXTEXT_SOURCE": "pypi"},
        files=(file("code.Dockerfile"), ContextFile(path="code", kind="folder"), file("code/hooks.py", b"print(1)")),
    )
    made = Material(deps=deps, code=code, base=Base(ref="python:3.12-slim", digest=DIGEST))
    return replace(made, **changes)


def recipe(options: BuildOptions = OPTIONS, **changes: Any) -> Recipe:
    return make_recipe(options, material(**changes))
