"""The command that sends a program of xsft to a pod, or names the image's, and runs it there. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from io import BytesIO
from typing import Any
from zipfile import ZipFile, ZipInfo

BOOT = "xsft.workers.boot"
CARRIED = "xsft.workers.carried"


def sent_argv(
    module: str, notes: Mapping[str, Any], argv: tuple[str, ...], *, besides: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the command that runs `module` with `notes` and `argv`. `besides`: more programs, which it runs."""
    return _started(BOOT, {"module": module, "notes": notes, "files": files_of(module, *besides)}, argv)


def carried_argv(
    module: str, notes: Mapping[str, Any], argv: tuple[str, ...], *, archive: str, sha256: str
) -> tuple[str, ...]:
    """Return the same command for an image with `archive`, a path of an `archive_of` the module. It runs no other."""
    return _started(CARRIED, {"module": module, "notes": notes, "archive": archive, "sha256": sha256}, argv)


def archive_of(module: str) -> bytes:
    """Return a zip file of `files_of`, from which Python imports; the same bytes for the same files."""
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        for path, text in files_of(module).items():
            archive.writestr(ZipInfo(path), text)
    return content.getvalue()


def files_of(*modules: str) -> dict[str, str]:
    """Return path -> text of the modules and of what they import of xsft. Packages have an empty `__init__`: nothing
    else of xsft is imported, nor an xsft that the image may have."""
    all_of = _with_imports(modules)
    packages = sorted({".".join(one.split(".")[:depth]) for one in all_of for depth in range(1, one.count(".") + 1)})
    return {_module_path(f"{one}.__init__"): "" for one in packages} | {
        _module_path(one): text_of(one) for one in all_of
    }


def _started(program: str, document: Mapping[str, Any], argv: tuple[str, ...]) -> tuple[str, ...]:
    return ("python3", "-c", text_of(program), json.dumps(document, separators=(",", ":")), *argv)


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


def _imported(text: str) -> list[str]:
    """Return the modules of xsft that are imported. Each import begins a line."""
    return re.findall(r"^ *from (xsft\.[\w.]+) import ", text, re.MULTILINE)


def _module_path(module: str) -> str:
    return f"{module.replace('.', '/')}.py"
