"""Ports that are free, below those that the kernel gives to outgoing connections (ip(7): from 32768).

There a port stays ours while its server restarts; from the kernel's range any client on the machine might take it.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

LOWEST, HIGHEST = 15000, 32000


def free_port() -> int:
    """One port, below those that the kernel gives to clients: no other process gets it by chance."""
    return free_ports(("one",))["one"]


def free_ports(names: tuple[str, ...]) -> dict[str, int]:
    """A port for each name, all different and free now. Between now and its use another may take one: try again."""
    chance = random.SystemRandom()
    ports: dict[str, int] = {}
    with ExitStack() as exit_stack:
        while len(ports) < len(names):
            port = chance.randrange(LOWEST, HIGHEST)
            probe = exit_stack.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports[names[len(ports)]] = port
    return ports
