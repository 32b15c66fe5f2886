"""The part of a run's logs that is requested."""

from __future__ import annotations

from msgspec import Struct

STREAMS = 8
"""Maximum logs that --all opens by default: two slices of v6e-256 have 128."""


class LogRequest(Struct, frozen=True, kw_only=True):
    """A request for a run's logs. None: the default, or no limit."""

    slice_index: int | None = None
    host: int | None = None
    every: bool = False
    at_most: int = STREAMS
    since: str | None = None
    """Time of the oldest line; UTC, ISO 8601."""
    tail: int | None = None
    follow: bool = False
    attempt: int | None = None
