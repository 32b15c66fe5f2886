"""The rule of blocks and sequence lengths is the kernel's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.maxtext import answer
from xsft.checks.mesh import COLUMNS, PARTS, ROWS, misfit

NAMES = (*ROWS, *COLUMNS, *PARTS)
CASES: tuple[tuple[int, dict[str, int]], ...] = (
    (64, {}),
    (100, {}),
    (384, {}),
    (500, {}),
    (640, {}),
    (1024, {}),
    (2000, {}),
    (1024, {"sa_block_q": 8}),
    (1024, {"sa_block_q": 384}),
    (1024, {"sa_block_q_dkv": 8}),
    (1024, {"sa_block_kv_compute": 100}),
    (1024, {"sa_block_kv_dkv_compute": 64}),
    (1024, {"sa_block_kv_dq": 64}),
    (1024, {"sa_block_kv": 1024, "sa_block_kv_compute": 256}),
)
KERNEL = Path(__file__).parent / "maxtext_attention.py"


@pytest.mark.maxtext
def test_the_kernel_accepts_exactly_the_block_sizes_that_the_rule_accepts(maxtext_python: Path) -> None:
    cases = [[length, {name: given.get(name, 512) for name in NAMES}] for length, given in CASES]
    refused = answer(maxtext_python, KERNEL, cases)
    reasons = [misfit(length, blocks) for length, blocks in cases]
    assert [bool(why) for why in reasons] == [bool(why) for why in refused], list(
        zip(CASES, reasons, refused, strict=True)
    )
