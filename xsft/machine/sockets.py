"""Sockets of this machine, and ports of its loopback address."""

from __future__ import annotations

import socket

from xsft.base.errors import Refused

LOOPBACK = "127.0.0.1"


def require_listener(path: str, *, timeout_s: float) -> None:
    """Raise OSError if no process listens on the Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(timeout_s)
        probe.connect(path)


def free_port(wanted: int | None = None) -> int:
    """Return `wanted`, or a port that the system chooses. Raises Refused, port-in-use, if `wanted` cannot be bound."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted or 0))
        except OSError as problem:
            raise Refused(
                f"port {wanted} of {LOOPBACK} cannot be used: {problem.strerror}",
                fix="Choose another with --port, or omit --port to use a free one.",
                id="port-in-use",
            ) from problem
        return int(probe.getsockname()[1])
