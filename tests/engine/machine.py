"""The requirements of a real Docker engine for tests, and the reason why a machine does not meet them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

PROGRAMS = {
    "dockerd": "docker.io",
    "containerd": "docker.io",
    "runc": "docker.io",
    "docker": "docker.io",
    "docker-registry": "docker-registry",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""Program to the Debian package that has it; .ci/run installs the same."""

SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")
"""Not on every user's PATH, yet dockerd and iptables live there."""

NOT_A_DISK = frozenset({"tmpfs", "ramfs"})


def why_no_engine(*, has: Callable[[str], object], uid: int, platform: str = sys.platform) -> str:
    """Return why no engine can be started here; empty if one can. `has`: whether a program is here."""
    if platform != "linux":
        return "no Docker engine of the tests' own: it needs Linux"
    if missing := sorted({package for program, package in PROGRAMS.items() if not has(program)}):
        return f"no Docker engine of the tests' own: missing here: {', '.join(missing)} (Debian packages)"
    if uid != 0:
        return "no Docker engine of the tests' own: starting dockerd needs root"
    return ""


def which(program: str) -> str | None:
    return shutil.which(program, path=search_path())


def search_path() -> str:
    """PATH with the system's folders behind it."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS))


def disk_folder(candidates: Iterable[Path]) -> Path:
    """The first of `candidates` that is on a disk, made: layers of gigabytes in a tmpfs would be memory."""
    paths = [_made(folder) for folder in candidates]
    return next((folder for folder in paths if filesystem_of(folder) not in NOT_A_DISK), paths[-1])


def filesystem_of(folder: Path) -> str:
    """Type of the file system that holds `folder`, e.g. `ext4`. source: proc(5), /proc/self/mounts."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    holding = [(len(point), index, kind) for index, (_, point, kind, *_) in enumerate(mounts) if _is_in(folder, point)]
    return max(holding, default=(0, 0, "unknown"))[2]


def _is_in(folder: Path, point: str) -> bool:
    return folder.resolve().is_relative_to(Path(point.replace("\\040", " ")))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
