"""Logits of two sides, compared position by position."""

from __future__ import annotations

import numpy as np
import pytest

from xsft.workers.compare_logits import comparison

RIGHT = np.array([[1.0, -8.0, 0.0], [0.1, 0.2, 0.3]], np.float32)


@pytest.mark.parametrize(
    ("change", "differing", "worst"),
    [
        ((0, 1, 0.007), 0, []),
        ((0, 1, 0.009), 1, ["token 1 of prompt 2 by 0.0011"]),
        ((1, 0, 0.009), 1, ["token 2 of prompt 2 by 0.03"]),
        ((1, 1, np.nan), 1, ["token 2 of prompt 2 by nan"]),
    ],
    ids=["within the bound", "a position with large logits", "one with small logits", "no number"],
)
def test_the_bound_follows_the_size_of_a_positions_logits(
    change: tuple[int, int, float], differing: int, worst: list[str]
) -> None:
    position, token, difference = change
    other = RIGHT.copy()
    other[position, token] += difference
    compared = comparison([RIGHT, RIGHT], [RIGHT, other], bound=1e-3)
    assert (compared["positions"], compared["differing"], compared["worst"]) == (4, differing, worst)


def test_a_tie_within_the_bound_is_no_difference() -> None:
    right = np.array([[1.0, 0.9999]], np.float32)
    compared = comparison([right], [right[:, ::-1]], bound=1e-3)
    assert (compared["same_argmax"], compared["differing"]) == (0, 0)
