"""The memory of this machine, or of the control groups that this process is in, if they allow less."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")


class GroupFiles(Struct, frozen=True, kw_only=True):
    """The files in which one version of control groups keeps the memory of a group.

    source: linux@6.12 Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst
    """

    own: re.Pattern[str]
    """Line of /proc/self/cgroup with the process's group."""
    folder: str
    limit: str
    used: str
    cache: re.Pattern[str]
    """Line of memory.stat with the file cache that the kernel drops first."""


VERSIONS = (
    GroupFiles(
        own=re.compile(r"^0::/(.*)$", re.MULTILINE),
        folder="",
        limit="memory.max",
        used="memory.current",
        cache=re.compile(r"^inactive_file (\d+)$", re.MULTILINE),
    ),
    GroupFiles(
        own=re.compile(r"^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:/(.*)$", re.MULTILINE),
        folder="memory",
        limit="memory.limit_in_bytes",
        used="memory.usage_in_bytes",
        cache=re.compile(r"^total_inactive_file (\d+)$", re.MULTILINE),
    ),
)


def memory_bytes(*, proc: Path = PROC, groups: Path = GROUPS) -> int | None:
    """Return the total memory in bytes; None if the system does not report it."""
    limits = (limit for limit, _ in _group_limits(proc, groups))
    return min((*_meminfo(proc, "MemTotal"), *limits), default=None)


def available_bytes(*, proc: Path = PROC, groups: Path = GROUPS) -> float:
    """Return the memory that a new program can have, the groups' file cache counted as free; infinite if the system
    does not report it.
    """
    free = (limit - used for limit, used in _group_limits(proc, groups))
    return min((*_meminfo(proc, "MemAvailable"), *free), default=float("inf"))


def _meminfo(proc: Path, name: str) -> Iterator[int]:
    if match := re.search(rf"^{name}:\s+(\d+) kB", _text_or_empty(proc / "meminfo"), re.MULTILINE):
        yield int(match[1]) * 1024


def _group_limits(proc: Path, groups: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and used bytes of the process's groups and of all above them: each of them binds.

    In a container the group has its name outside of it, and its files are those of the root.
    """
    named = _text_or_empty(proc / "self" / "cgroup")
    for files in VERSIONS:
        if match := files.own.search(named):
            root = groups / files.folder
            folder = root / match[1]
            for group in (folder, *folder.parents):
                if group.is_relative_to(root):
                    yield from _limit(group, files)


def _limit(group: Path, files: GroupFiles) -> Iterator[tuple[int, int]]:
    limit, used = (_text_or_empty(group / name).strip() for name in (files.limit, files.used))
    if limit.isdecimal() and used.isdecimal():
        cache = files.cache.search(_text_or_empty(group / "memory.stat"))
        yield int(limit), int(used) - (int(cache[1]) if cache else 0)


def _text_or_empty(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
