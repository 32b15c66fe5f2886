"""Every reason that a state can have, with its meaning, from reasons.toml, the only file that this module reads."""

from __future__ import annotations

import tomllib
from pathlib import Path

from msgspec import Struct

from xsft.base.state_names import State


class Reason(Struct, frozen=True, kw_only=True):
    slug: str
    states: tuple[State, ...]
    meaning: str
    """The text, one line."""


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["reason"]
REASONS = tuple(Reason(slug=slug, states=tuple(row["states"]), meaning=row["meaning"]) for slug, row in _TABLE.items())
BY_SLUG = {reason.slug: reason for reason in REASONS}
