"""Types that many modules share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

JsonObject = dict[str, Any]
"""A parsed JSON or YAML mapping."""
JsonMapping = Mapping[str, Any]
"""The same, to be read only."""
Pause = Callable[[float], None]
"""Waits for the seconds, as `machine.clock.pause`."""
ShowLine = Callable[[str], None]
"""Shows one line to the user at once, e.g. the current step or the reason for a wait."""
