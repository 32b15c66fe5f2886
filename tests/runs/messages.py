"""Messages of real releases, with their sources: tests/runs/messages.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

MESSAGES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))[
    "message"
]
