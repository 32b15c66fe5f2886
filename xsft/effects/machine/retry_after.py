"""How long a busy server asks clients to wait."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`; None if it is missing or holds a date."""
    said = headers.get("Retry-After") or ""
    return float(said) if _SECONDS.fullmatch(said) else None
