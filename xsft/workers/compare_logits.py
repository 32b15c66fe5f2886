"""Compares logits of exported models with saved ones. Runs in the engine's environment (`workers.answering`).

`{"folders", "file"}` becomes `{"folders": [{"greatest_difference", "greatest_logit", "positions", "same_argmax"}]}`.
`file` holds `tokens_<n>` and `logits_<n>` of each prompt (`logits_worker.py`). Computes in float32.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from xsft.workers.answering import answer_notes


def answer(job: dict[str, Any]) -> dict[str, Any]:
    saved = np.load(job["file"])
    count = sum(name.startswith("tokens_") for name in saved.files)
    prompts = [(saved[f"tokens_{n}"], saved[f"logits_{n}"]) for n in range(count)]
    return {"folders": [compared(folder, prompts) for folder in job["folders"]]}


def compared(folder: str, prompts: list[tuple[Any, Any]]) -> dict[str, Any]:
    import mlx.core as mx  # type: ignore[import-not-found]
    import mlx_lm  # type: ignore[import-not-found]

    try:
        model, _ = mlx_lm.load(folder)
    except Exception as failed:
        print(f"{folder}: {type(failed).__name__}: {failed}", file=sys.stderr)
        return {"greatest_difference": float("inf"), **sizes(prompts), "same_argmax": 0}
    model.set_dtype(mx.float32)
    greatest, same = 0.0, 0
    for tokens, wanted in prompts:
        held = np.array(model(mx.array(tokens[None]))[0].astype(mx.float32))[:, : wanted.shape[-1]]
        greatest = max(greatest, float(np.max(np.abs(held - wanted))))
        same += int(np.count_nonzero(held.argmax(-1) == wanted.argmax(-1)))
    return {"greatest_difference": greatest, **sizes(prompts), "same_argmax": same}


def sizes(prompts: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {
        "greatest_logit": max(float(np.max(np.abs(wanted))) for _, wanted in prompts),
        "positions": sum(len(tokens) for tokens, _ in prompts),
    }


if __name__ == "__main__":
    answer_notes(answer)
