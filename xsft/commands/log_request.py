"""What of a run's logs is wanted."""

from __future__ import annotations

from msgspec import Struct

STREAMS = 8
"""Logs that --all opens without being told a number: two slices of v6e-256 have 128."""


class LogRequest(Struct, frozen=True, kw_only=True):
    """What of a run's logs is wanted. None: the default, or no limit."""

    slice_index: int | None = None
    host: int | None = None
    every: bool = False
    at_most: int = STREAMS
    since: str | None = None
    """UTC, ISO 8601."""
    tail: int | None = None
    follow: bool = False
    attempt: int | None = None
