"""The files that a dependencies' image has installed, by content: read once per image, and cached."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from xsft.base.errors import XsftError
from xsft.effects.images.context import context_file
from xsft.image.model import BuildStep
from xsft.image.thin import LISTED, OVERLAYS, InstalledFiles, left_out, list_installed_files, step_without_files
from xsft.machine.files import write_private
from xsft.machine.process import run
from xsft.machine.regular import read_text

ASK_TIMEOUT_S = 120.0
PROGRAM = """
import hashlib, importlib.util, json, os, sys
found = {}
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    roots = list(spec.submodule_search_locations or ()) if spec else []
    files = {}
    for at, _, names in os.walk(roots[0]) if roots else ():
        for file in names if "__pycache__" not in at else ():
            path = os.path.join(at, file)
            with open(path, "rb") as opened:
                files[os.path.relpath(path, roots[0])] = hashlib.sha256(opened.read()).hexdigest()
    found[name] = files
print(json.dumps(found))
"""


def thin_step(step: BuildStep, *, image_id: str, docker: str, env: Mapping[str, str], cache: Path) -> BuildStep:
    """Return the step without files that the image below has at the same path; unchanged if they cannot be read, or if
    the image has another folder layout than images/post_training.
    """
    laid = [package for package in OVERLAYS if any(f.path.startswith(f"{package}/{package}/") for f in step.files)]
    laid = laid if _understands(step) else []
    found = _read_installed(image_id, docker=docker, env=env, cache=cache) if laid else {}
    for package in laid:
        files = left_out(step, package, found.get(package, {}))
        if files:
            content = list_installed_files(files, package).encode("utf-8", "surrogateescape")
            step = step_without_files(
                step, files, instead=context_file(content, path=f"{package}/{LISTED}", cache=cache)
            )
    return step


def _understands(step: BuildStep) -> bool:
    """Return whether the image's place.py reads the list of left-out files."""
    place = next((f for f in step.files if f.path == "place.py"), None)
    return place is not None and LISTED in Path(place.source).read_text(encoding="utf-8", errors="replace")


def _read_installed(image_id: str, *, docker: str, env: Mapping[str, str], cache: Path) -> dict[str, InstalledFiles]:
    at = cache / f"{image_id.removeprefix('sha256:')}.json"
    with suppress(OSError, ValueError):
        if known := _json_object(read_text(at)):
            return known
    found = _ask_image(image_id, docker=docker, env=env)
    with suppress(OSError, XsftError):
        if found:
            write_private(at, json.dumps(found))
    return found


def _ask_image(image_id: str, *, docker: str, env: Mapping[str, str]) -> dict[str, InstalledFiles]:
    """Return the files, listed by the image's own Python, without a network. Empty if it does not run: then everything
    is sent.
    """
    argv = (docker, "run", "--rm", "--network=none", "--entrypoint=python3", image_id, "-I", "-c", PROGRAM, *OVERLAYS)
    try:
        done = run(argv, env=env, timeout_s=ASK_TIMEOUT_S)
        return _json_object(done.stdout) if done.ok else {}
    except (XsftError, ValueError):
        return {}


def _json_object(text: str) -> dict[str, Any]:
    """Return the object; empty for another value. Raises ValueError for what is not JSON."""
    found = json.loads(text)
    return found if isinstance(found, dict) else {}
