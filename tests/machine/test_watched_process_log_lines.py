"""Lines of any program's output: complete, in order, in bounded memory."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.machine.watched_process import LONGEST, keep_lines, lines

CHUNKS = st.lists(st.text("ab\r\n").map(str.encode), max_size=8)


def told(chunks: Iterable[bytes]) -> list[str]:
    found: list[str] = []
    keep_lines(chunks, log=io.BytesIO(), on_line=found.append)
    return found


@given(CHUNKS)
def test_keep_lines_gives_the_same_lines_for_any_chunks_and_logs_every_byte(chunks: list[bytes]) -> None:
    text = b"".join(chunks)
    log = io.BytesIO()
    found: list[str] = []
    keep_lines(chunks, log=log, on_line=found.append)
    assert log.getvalue() == text
    assert found == [line.decode() for line in text.splitlines()]


def test_each_update_of_a_progress_bar_is_a_line() -> None:
    assert told([b"Map:  0%\rMap: 50", b"%\rMap: 100%\r", b"\nstep 1\r\n"]) == [
        "Map:  0%",
        "Map: 50%",
        "Map: 100%",
        "step 1",
    ]


def test_undecodable_bytes_become_replacement_characters() -> None:
    assert told([b"a\xff\n", b"\xc3", b"\xa4\n"]) == ["a\N{REPLACEMENT CHARACTER}", "ä"]


@pytest.mark.parametrize("chunk", [b"x" * 1000, b"x" * 10 * LONGEST], ids=["short chunks", "chunks longer than a part"])
def test_an_endless_line_is_split_into_parts_and_not_held_in_memory(chunk: bytes) -> None:
    many = 64 * LONGEST // len(chunk)
    tracemalloc.start()
    try:
        sizes = [len(part) for part in lines(chunk for _ in range(many))]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert max(sizes) == LONGEST
    assert sum(sizes) == many * len(chunk)
    assert peak < 4 * (LONGEST + len(chunk))


def test_a_long_line_in_the_middle_of_a_chunk_is_split() -> None:
    assert [len(line) for line in lines([b"a\n" + b"x" * (LONGEST + 5) + b"\nb\n"])] == [2, LONGEST, 6, 2]
