"""The command that sends a program of xsft to a pod and runs it there. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

PACKAGE = "xsft"
BOOT = "xsft.pod.boot"
SHARED = ("xsft.pod.place", "xsft.pod.work")
"""Modules that every program imports."""


def sent_argv(
    module: str, notes: Mapping[str, Any], argv: tuple[str, ...], *, besides: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the command that runs `module` with `notes` and `argv`. `besides`: more modules that it needs.

    Packages are sent with an empty `__init__`: nothing else of xsft is imported, nor an xsft that the image may have.
    """
    modules = (*SHARED, *besides, module)
    packages = sorted({PACKAGE, *(one.rpartition(".")[0] for one in modules)})
    texts = {_path(f"{one}.__init__"): "" for one in packages} | {_path(one): text_of(one) for one in modules}
    document = {"module": module, "notes": notes, "files": texts}
    return ("python3", "-c", text_of(BOOT), json.dumps(document, separators=(",", ":")), *argv)


def text_of(module: str) -> str:
    """Return the source of a module of xsft."""
    package, _, name = module.rpartition(".")
    return files(package).joinpath(f"{name}.py").read_text("utf-8")


def _path(module: str) -> str:
    return f"{module.replace('.', '/')}.py"
