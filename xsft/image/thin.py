"""Leave out of a build context the files that the lower image already has, so that a small change uploads little. Pure.

The tag still covers the whole context; omitted files have the same content in the lower image.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from xsft.image.model import BuildStep, ContextFile

OVERLAYS = ("maxtext", "tunix")
"""Folders of the code's context that overlay an installed package of the same name."""
LISTED = "as-installed.txt"
"""Name of the list of omitted files, for images/post_training/place.py: `BYTES PATH` per line."""

InstalledFiles = Mapping[str, str]
"""Path in the package -> sha256 of the installed content."""


def left_out(step: BuildStep, package: str, installed: InstalledFiles) -> tuple[ContextFile, ...]:
    """Return the package's files that the lower image has, except the one that identifies the tree."""
    prefix = f"{package}/{package}/"
    found = (f for f in step.files if f.kind == "file" and f.path.startswith(prefix))
    same = (f for f in found if installed.get(f.path.removeprefix(prefix)) == f.sha256)
    return tuple(f for f in same if f.path != f"{prefix}__init__.py")


def list_installed_files(files: tuple[ContextFile, ...], package: str) -> str:
    """Return the text of `as-installed.txt`."""
    prefix = f"{package}/{package}/"
    return "".join(f"{f.size} {f.path.removeprefix(prefix)}\n" for f in sorted(files, key=lambda f: f.path))


def step_without_files(step: BuildStep, files: tuple[ContextFile, ...], *, instead: ContextFile) -> BuildStep:
    """Return the step without these files; `instead` is their list."""
    gone = {f.path for f in files}
    return replace(step, files=(*(f for f in step.files if f.path not in gone), instead))
