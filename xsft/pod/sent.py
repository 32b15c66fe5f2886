"""The command that sends a program of xsft to a pod and runs it there. Pure."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any

BOOT = "xsft.pod.boot"
OURS = "xsft."


def sent_argv(
    module: str, notes: Mapping[str, Any], argv: tuple[str, ...], *, besides: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the command that runs `module` with `notes` and `argv`. `besides`: more programs, which it runs.

    What they import of xsft is sent with them. Packages have an empty `__init__`: nothing else of xsft is imported, nor
    an xsft that the image may have.
    """
    modules = _with_imports((module, *besides))
    packages = sorted({".".join(one.split(".")[:depth]) for one in modules for depth in range(1, one.count(".") + 1)})
    texts = {_path(f"{one}.__init__"): "" for one in packages} | {_path(one): text_of(one) for one in modules}
    document = {"module": module, "notes": notes, "files": texts}
    return ("python3", "-c", text_of(BOOT), json.dumps(document, separators=(",", ":")), *argv)


def text_of(module: str) -> str:
    """Return the source of a module of xsft."""
    package, _, name = module.rpartition(".")
    return files(package).joinpath(f"{name}.py").read_text("utf-8")


def _with_imports(modules: Iterable[str], before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the modules and those of xsft that they import, each before its importers. `before`: known already."""
    for one in modules:
        if one not in before:
            before = (*_with_imports(_imported(text_of(one)), before), one)
    return before


def _imported(text: str) -> Iterator[str]:
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
    return (node.module for node in nodes if node.module and node.module.startswith(OURS))


def _path(module: str) -> str:
    return f"{module.replace('.', '/')}.py"
