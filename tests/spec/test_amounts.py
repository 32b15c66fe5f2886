from __future__ import annotations

import pytest

from xsft.spec.amounts import counted, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (999.5, "1 kB"),
        (1900, "1.9 kB"),
        (63_000, "63 kB"),
        (999_600, "1 MB"),
        (1.856e9, "1.86 GB"),
        (2e13, "20 TB"),
    ],
)
def test_a_size_has_at_most_three_digits(size: float, text: str) -> None:
    assert size_text(size) == text


def test_one_thing_is_not_plural() -> None:
    assert [counted(n, "file") for n in (0, 1, 1200)] == ["0 files", "1 file", "1,200 files"]
