"""A bridge of the tests' own for the containers of one engine.

dockerd's own `docker0` and its iptables chains are the machine's: a second daemon would rewrite them under the first.
So the engine runs with `--bridge OURS --iptables=false`, and the three rules it needs are added and removed here.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.engine.machine import which
from tests.engine.slots import SLOTS, unheld

POOL = tuple(ipaddress.IPv4Network("172.16.0.0/12").subnets(new_prefix=24))[::-1]
"""Private networks, the least used first: Docker itself begins at the other end (172.17.0.0/16)."""


class NotAllowed(Exception):
    """ip or iptables failed; the message has what it said."""


@dataclass(frozen=True)
class Bridge:
    name: str
    subnet: ipaddress.IPv4Network
    mtu: int
    """Largest packet, bytes: the way out's. Containers that send larger ones stall where "too big" gets lost."""

    @property
    def gateway(self) -> str:
        """The host's address as containers see it: a server bound to it can be reached from a build."""
        return str(self.subnet[1])

    def rules(self) -> tuple[tuple[str, ...], ...]:
        """iptables rules without their action: containers may go out, and answers come back."""
        masquerade = ("-s", str(self.subnet), "!", "-o", self.name, "-j", "MASQUERADE")
        ours = ("-m", "comment", "--comment", f"xsft tests {self.name}")
        return (
            ("nat", "POSTROUTING", *masquerade, *ours),
            ("filter", "FORWARD", "-i", self.name, "-j", "ACCEPT", *ours),
            ("filter", "FORWARD", "-o", self.name, "-j", "ACCEPT", *ours),
        )


@contextmanager
def bridge(slot: int) -> Iterator[Bridge]:
    """The bridge of `slot`, whose lock the caller holds: what a killed session left under any free name is removed."""
    _sweep()
    new_bridge = Bridge(name=_name(slot), subnet=_free_subnet(slot), mtu=_mtu())
    _remove(new_bridge.name)
    try:
        _ip("link", "add", new_bridge.name, "type", "bridge")
        _ip("addr", "add", f"{new_bridge.gateway}/{new_bridge.subnet.prefixlen}", "dev", new_bridge.name)
        _ip("link", "set", new_bridge.name, "mtu", str(new_bridge.mtu), "up")
        for table, chain, *rule in new_bridge.rules():
            _iptables("-t", table, "-I", chain, *rule)
        yield new_bridge
    finally:
        _remove(new_bridge.name)


def _sweep() -> None:
    """Remove the bridges of killed sessions, whatever number they had."""
    ifnames = {link["ifname"] for link in json.loads(_ip("-j", "link", "show", "type", "bridge"))}
    for number in unheld():
        if _name(number) in ifnames:
            _remove(_name(number))


def _name(slot: int) -> str:
    return f"xsft-test{slot}"


def _mtu() -> int:
    out = next((route["dev"] for route in json.loads(_ip("-4", "-j", "route", "show", "default"))), "lo")
    return min(1500, int(json.loads(_ip("-j", "link", "show", "dev", out))[0]["mtu"]))


def _free_subnet(slot: int) -> ipaddress.IPv4Network:
    """A network that no route of this machine touches; slots do not share one."""
    routes = json.loads(_ip("-4", "-j", "route", "show", "table", "main"))
    ipv4_networks = [ipaddress.IPv4Network(route["dst"]) for route in routes if route["dst"] != "default"]
    return next(network for network in POOL[slot::SLOTS] if not any(network.overlaps(other) for other in ipv4_networks))


def _remove(name: str) -> None:
    subprocess.run((_tool("ip"), "link", "delete", name), capture_output=True, check=False)
    for table in ("nat", "filter"):
        for line in _iptables("-t", table, "-S").splitlines():
            if f'"xsft tests {name}"' in line:
                _, *rule = shlex.split(line)  # `-A CHAIN …` as it was added
                _iptables("-t", table, "-D", *rule)


def _iptables(*arguments: str) -> str:
    # --wait: another session may be holding xtables' lock
    return _run(_tool("iptables"), "--wait", *arguments)


def _ip(*arguments: str) -> str:
    return _run(_tool("ip"), *arguments)


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotAllowed(f"{argv}: {done.stderr}")
    return done.stdout


def _tool(name: str) -> str:
    return which(name) or name
