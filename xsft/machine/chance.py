"""Random names that no other process uses."""

from __future__ import annotations

import secrets


def random_hex(count: int) -> str:
    """Return `count` random bytes as hex: twice as many digits."""
    return secrets.token_hex(count)
