"""The measuring program alone; tests/contract/test_evaluate.py runs it in MaxText's environment."""

from __future__ import annotations

import numpy as np

from xsft.workers.measure_weights import batches


def row(number: int) -> dict[str, np.ndarray]:
    return {"inputs": np.full((1, 4), number), "targets_segmentation": np.ones((1, 4), np.int32)}


def test_last_batch_is_filled_with_rows_without_weight() -> None:
    batch_list = list(batches([row(number) for number in range(3)], size=2))
    assert [index for index, _ in batch_list] == [0, 2]
    assert [batch["inputs"][:, 0].tolist() for _, batch in batch_list] == [[0, 1], [2, 2]]
    assert [batch["targets_segmentation"].sum() for _, batch in batch_list] == [8, 4]


def test_no_rows_give_no_batch() -> None:
    assert list(batches([], size=4)) == []
