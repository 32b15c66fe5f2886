"""The memory of this machine and of its control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from xsft.machine.memory import available_bytes, memory_bytes

GIB = 2**30
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")
NO_LIMIT = "9223372036854771712"
"""How version 1 says it."""


def group(folder: Path, names: tuple[str, str, str], *, limit: object, used: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {GIB}\n")


def read(tmp_path: Path) -> tuple[float | None, float]:
    places = {"proc": tmp_path / "proc", "groups": tmp_path / "groups"}
    total = memory_bytes(**places)
    return total / GIB if total is not None else None, available_bytes(**places) / GIB


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(f"MemTotal: {16 * 2**20} kB\nMemAvailable:    {8 * 2**20} kB\n")


@pytest.mark.parametrize(
    ("names", "root", "line", "no_limit"),
    [(V2, "", "0::/pod/box", "max"), (V1, "memory", "8:pids:/\n4:cpu,memory:/pod/box\n0::/", NO_LIMIT)],
)
def test_the_limits_of_the_control_group_and_its_parents_count(
    tmp_path: Path, names: tuple[str, str, str], root: str, line: str, no_limit: str
) -> None:
    pod = tmp_path / "groups" / root / "pod"
    assert read(tmp_path) == (16, 8)
    (tmp_path / "proc" / "self" / "cgroup").write_text(f"{line}\n")
    group(pod / "box", names, limit=no_limit, used=3 * GIB)
    assert read(tmp_path) == (16, 8)
    group(pod / "box", names, limit=6 * GIB, used=3 * GIB)
    assert read(tmp_path) == (6, 4)
    group(pod, names, limit=5 * GIB, used=4 * GIB)
    assert read(tmp_path) == (5, 2)


def test_the_limit_at_the_root_of_a_container_counts(tmp_path: Path) -> None:
    (tmp_path / "proc" / "self" / "cgroup").write_text("4:memory:/docker/0123abcd\n")
    group(tmp_path / "groups" / "memory", V1, limit=2 * GIB, used=GIB)
    assert read(tmp_path) == (2, 2)


def test_an_unknown_memory_is_none(tmp_path: Path) -> None:
    (tmp_path / "proc" / "meminfo").unlink()
    assert read(tmp_path) == (None, float("inf"))
