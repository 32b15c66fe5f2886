"""Sockets of this machine."""

from __future__ import annotations

import socket


def require_listener(path: str, *, timeout_s: float) -> None:
    """Raise OSError if no process listens on the Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(timeout_s)
        probe.connect(path)
