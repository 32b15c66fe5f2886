"""Losses of TensorBoard event files; tests/contract/test_local_trainer.py reads those of a real run."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from xsft.trainer.metrics import event_losses


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def event(step: int, tag: str, value: float) -> bytes:
    """One record: the wall time, the step as a varint of two bytes, and a summary of one value."""
    simple = bytes([2 << 3 | 5]) + struct.pack("<f", value)
    summary = field(1, field(1, tag.encode()) + simple)
    message = bytes([1 << 3 | 1]) + bytes(8) + bytes([2 << 3, step & 0x7F | 0x80, step >> 7]) + field(5, summary)
    return struct.pack("<Q", len(message)) + bytes(4) + message + bytes(4)


FILE = event(0, "configs/x", 1.0) + event(1, "learning/loss", 6.5) + event(300, "learning/loss", 1.75)


def test_losses_are_read_by_step() -> None:
    assert event_losses(FILE) == {1: 6.5, 300: 1.75}


@given(st.integers(min_value=0, max_value=len(FILE)), st.binary(max_size=40))
def test_a_torn_file_gives_the_losses_before_the_tear(length: int, more: bytes) -> None:
    assert event_losses(FILE[:length]).items() <= event_losses(FILE).items()
    event_losses(FILE[:length] + more)
    event_losses(more)
