"""Log lines without terminal control codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.trainer.lines import plain_line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\x1b[1;31mValueError\x1b[0m: no such \x1b[4mkey\x1b[24m", "ValueError: no such key"),
        ("\x1b]0;a title\x07KeyError: 'a'", "KeyError: 'a'"),
        ("\x1b]8;;http://x\x1b\\a link\x1b]8;;\x1b\\", "a link"),
        ("\x1b]0;a title without an end", ""),
        ("\x1bcOSError\x1b(B: no", "OSError: no"),
        ("\x00\x07Runtime\x08Error: \x9b no\x7f", "RuntimeError:  no"),
        ("\r 10%|#   | 1/10\r 20%|##  | 2/10\rKeyError: 'a'\r", "KeyError: 'a'"),
        ("\tas it was: é … 数", "\tas it was: é … 数"),
        ("", ""),
    ],
)
def test_plain_line_removes_terminal_codes(line: str, expected: str) -> None:
    assert plain_line(line) == expected


@given(st.text())
def test_plain_line_leaves_no_control_character(line: str) -> None:
    assert not any((ord(c) < 32 and c != "\t") or 127 <= ord(c) < 160 for c in plain_line(line))


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_plain_line_keeps_other_text(line: str) -> None:
    assert plain_line(line) == line
