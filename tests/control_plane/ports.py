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
    found: dict[str, int] = {}
    with ExitStack() as held:
        while len(found) < len(names):
            port = chance.randrange(LOWEST, HIGHEST)
            taken = held.enter_context(socket.socket())
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            found[names[len(found)]] = port
    return found
