"""Cache files: saved if possible, and never a reason to fail; and files that are made for a build context."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from xsft.effects.machine.files import write_atomic
from xsft.effects.machine.paths import PRIVATE_FILE, private_folder
from xsft.effects.machine.regular import read_bytes, read_text
from xsft.errors import XsftError
from xsft.image.model import ContextFile


def cached_content(path: Path) -> dict[str, Any]:
    """Return the cached content; empty if nothing was cached or it cannot be read."""
    try:
        found = json.loads(read_text(path))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def context_file(content: bytes, *, path: str, cache: Path) -> ContextFile:
    """Return content as a file of a context, which is sent from files. `path`: in the context.

    Raises EnvironmentMissing as `write_atomic` does.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    at = cache / f"{sha256}{Path(path).suffix}"
    if not at.exists() or read_bytes(at) != content:
        with suppress(OSError):  # the write says why
            private_folder(cache)
        write_atomic(at, content)
    return ContextFile(path=path, kind="file", size=len(content), sha256=sha256, source=str(at.absolute()))


def cache_content(path: Path, content: dict[str, Any]) -> None:
    with suppress(OSError, XsftError):
        private_folder(path.parent)
        write_atomic(path, json.dumps(content), mode=PRIVATE_FILE)
