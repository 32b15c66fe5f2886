from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from xsft.base.errors import EnvironmentMissing
from xsft.machine.regular import follow_log, read_log


def test_read_log_returns_the_lines_or_a_tail_of_a_file(tmp_path: Path) -> None:
    log = tmp_path / "trainer-1.log"
    log.write_bytes(b"one\ntwo\r\nth\xffree")
    assert list(read_log(log)) == ["one", "two", "th\N{REPLACEMENT CHARACTER}ree"]
    assert list(read_log(log, tail=1)) == ["th\N{REPLACEMENT CHARACTER}ree"]
    assert list(read_log(log, tail=0)) == []


def test_read_log_reports_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="No such file"):
        list(read_log(tmp_path / "nosuch.log"))


def test_following_a_log_gives_each_whole_line_once_until_the_run_ends(tmp_path: Path) -> None:
    log = tmp_path / "trainer-1.log"
    log.write_bytes(b"one\ntwo\n")
    pieces = iter([b"thr", b"ee\nfour\n", b"last"])

    def alive() -> Iterator[bool]:
        for piece in pieces:
            with log.open("ab") as file:
                file.write(piece)
            yield True
        yield False

    going = alive()
    lines = list(follow_log(log, tail=1, alive=lambda: next(going), pause=lambda _s: None))
    assert lines == ["two", "three", "four", "last"]
