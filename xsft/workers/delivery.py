"""How the programs of this room reach a pod: carried by its image, or sent with its command. Pure."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any
from zipfile import ZipFile, ZipInfo

PACKAGE = "xsft.workers"
ENTRY = f"{PACKAGE}.entry"
FOLDER_IN_IMAGE = "/usr/share/xsft/programs"
"""source: image/code_layer.py PROGRAMS"""
ARCHIVE = "evaluate.zip"
"""File in that folder; its name is of the time when only evaluations were carried."""
NEEDED: Mapping[str, tuple[str, ...]] = {
    "xsft.workers.conversion_container": ("xsft.workers.compare_source",),
    "xsft.workers.export_container": ("xsft.workers.compare_export", "xsft.workers.model_files"),
    "xsft.workers.evaluation_container": (),
}
"""Program of a pod -> the programs that it asks, which it does not import."""


def pod_argv(
    module: str, notes: Mapping[str, Any], argv: tuple[str, ...], *, carried: str | None = None
) -> tuple[str, ...]:
    """Return the command that runs `module` in a pod with `notes` and `argv`. `carried`: sha256 of the programs in its
    image; None: it has none. If those are others than these, the program and all that it needs is sent along."""
    sent: dict[str, Any] = {"module": module, "notes": notes}
    if carried == programs_digest():
        sent |= {"archive": f"{FOLDER_IN_IMAGE}/{ARCHIVE}", "sha256": carried}
    else:
        sent["files"] = files_of(module)
    return ("python3", "-c", text_of(ENTRY), json.dumps(sent, separators=(",", ":")), *argv)


@cache
def programs_archive() -> bytes:
    """Return the zip file of all programs of pods, which an image carries; the same bytes for the same programs."""
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        for path, text in sorted({path: text for module in NEEDED for path, text in files_of(module).items()}.items()):
            archive.writestr(ZipInfo(path), text)
    return content.getvalue()


@cache
def programs_digest() -> str:
    """Return the sha256 of `programs_archive`, 64 hex digits."""
    return hashlib.sha256(programs_archive()).hexdigest()


def files_of(module: str) -> dict[str, str]:
    """Return file name -> text of a program of pods, of those that it asks, and of what they import of this room."""
    texts: dict[str, str] = {}
    waiting = [module, *NEEDED.get(module, ())]
    if len(waiting) > 1:
        waiting.append(ENTRY)  # by which it starts the others
    while waiting:
        name = waiting.pop()
        if name not in texts:
            texts[name] = text_of(name)
            waiting.extend(_imported(texts[name]))
    return {f"{name.rpartition('.')[2]}.py": texts[name] for name in sorted(texts)}


def text_of(module: str) -> str:
    """Return the source of a module of this room."""
    return files(PACKAGE).joinpath(f"{module.rpartition('.')[2]}.py").read_text("utf-8")


def _imported(text: str) -> Iterator[str]:
    """Yield the modules of this room that a module imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{PACKAGE}."):
            yield node.module
