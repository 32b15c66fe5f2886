from __future__ import annotations

from pathlib import Path

from xsft.machine.regular import ByteProgress, pieces_of


def test_rate_and_time_left_are_reported_every_two_seconds(tmp_path: Path) -> None:
    lines: list[str] = []
    times = iter((0.0, 1.0, 4.0))
    progress = ByteProgress(lines.append, total=4 * 10**9, now=lambda: next(times))
    progress.add(10**9)
    assert lines == []
    progress.add(10**9)
    assert lines == ["read 2.00 of 4.00 GB, 500 MB/s, 4 s left"]


def test_pieces_of_a_file_join_to_its_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert b"".join(pieces_of(tmp_path / "a", ByteProgress(print, total=10))) == b"x" * 10
