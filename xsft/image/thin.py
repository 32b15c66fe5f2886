"""A build context without what the image below has already: a one-line change of a fork is sent as one file. Pure.

The tag is of the whole context; what is left out has the same content where it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from xsft.image.model import BuildStep, ContextFile

OVERLAYS = ("maxtext", "tunix")
"""Folders of the code's context that are laid over an installed package of the same name."""
LISTED = "as-installed.txt"
"""Names what was left out, for images/post_training/place.py: `BYTES PATH` a line."""

Installed = Mapping[str, str]
"""Path in the package -> sha256 of the content that is installed."""


def left_out(step: BuildStep, package: str, installed: Installed) -> tuple[ContextFile, ...]:
    """Files of the package's tree that the image below has; never the one by which the tree is known."""
    prefix = f"{package}/{package}/"
    found = (f for f in step.files if f.kind == "file" and f.path.startswith(prefix))
    same = (f for f in found if installed.get(f.path.removeprefix(prefix)) == f.sha256)
    return tuple(f for f in same if f.path != f"{prefix}__init__.py")


def listing(files: tuple[ContextFile, ...], package: str) -> str:
    """The text of `as-installed.txt`."""
    prefix = f"{package}/{package}/"
    return "".join(f"{f.size} {f.path.removeprefix(prefix)}\n" for f in sorted(files, key=lambda f: f.path))


def without(step: BuildStep, files: tuple[ContextFile, ...], *, instead: ContextFile) -> BuildStep:
    """`instead` is the listing of what is left out."""
    gone = {f.path for f in files}
    return replace(step, files=(*(f for f in step.files if f.path not in gone), instead))
