"""Cache files: saved if possible, and never a reason to fail."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from xsft.effects.machine.files import write_atomic
from xsft.effects.machine.paths import PRIVATE_FILE, private_folder
from xsft.effects.machine.regular import read_text
from xsft.errors import XsftError


def kept(path: Path) -> dict[str, Any]:
    """Return the cached content; empty if nothing was cached or it cannot be read."""
    try:
        found = json.loads(read_text(path))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep(path: Path, content: dict[str, Any]) -> None:
    with suppress(OSError, XsftError):
        private_folder(path.parent)
        write_atomic(path, json.dumps(content), mode=PRIVATE_FILE)
