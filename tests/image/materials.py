"""Files and recipes for the tests of images, made without a disk."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.replacing import replace
from xsft.image.context import ContextFile
from xsft.image.options import BuildOptions
from xsft.image.recipe import ImageFiles, Recipe, make_recipe

DIGEST = "sha256:" + "ab" * 32
REGISTRY = "127.0.0.1:5000/team"
OPTIONS = BuildOptions(maxtext="0.2.5")
BASE = f"python:3.12-slim@{DIGEST}"


def file(path: str, content: bytes = b"x", **changes: Any) -> ContextFile:
    context_file = ContextFile(path=path, kind="file", size=len(content), sha256=hashlib.sha256(content).hexdigest())
    return replace(context_file, **changes)


CONTEXT = (file("Dockerfile"), file("requirements.txt", b"numpy==2.0"))
CODE = (file("code/hooks.py", b"print(1)"), file("xsft/evaluate.zip", b"zip"))
DECLARED = {"BASE_IMAGE": "python:3.12-slim", "BASE_DIGEST": None, "LOCK_SHA256": None, "MAXTEXT_VERSION": "0.2.5"}


def recipe(options: BuildOptions = OPTIONS, **changes: Any) -> Recipe:
    """`changes`: of the files, the registry, the image's name or the base."""
    files = ImageFiles(context=CONTEXT, arguments=DECLARED, packages={}, code=CODE)
    names = {name: changes.pop(name) for name in ImageFiles.__struct_fields__ if name in changes}
    inputs: dict[str, Any] = {"image": "post_training", "registry": REGISTRY, "base": BASE}
    return make_recipe(options, replace(files, **names), **{**inputs, **changes})
