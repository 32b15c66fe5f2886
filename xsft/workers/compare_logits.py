"""Compares logits of exported models with saved ones. Runs in the engine's environment (`workers.answering`).

`{"folders", "file", "bound"}` becomes `{"folders": [comparison]}`, in the fields of `LogitsVerdict` without `engine`.
`file` holds `tokens_<n>` and `logits_<n>` of each prompt (`compute_logits.py`). Computes in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xsft.workers.answering import answer_question

SHOWN = 3
"""Positions that are described."""


def answer(job: dict[str, Any]) -> dict[str, Any]:
    saved = np.load(job["file"])
    count = sum(name.startswith("tokens_") for name in saved.files)
    prompts = [(saved[f"tokens_{n}"], saved[f"logits_{n}"]) for n in range(count)]
    return {"folders": [compared(folder, prompts, bound=job["bound"]) for folder in job["folders"]]}


def compared(folder: str, prompts: list[tuple[Any, Any]], *, bound: float) -> dict[str, Any]:
    import mlx.core as mx  # type: ignore[import-not-found]
    import mlx_lm  # type: ignore[import-not-found]

    try:
        model, _ = mlx_lm.load(folder)
    except Exception as failed:
        return {**comparison([], [], bound=bound), "unloaded": f"{type(failed).__name__}: {failed}"[:500]}
    model.set_dtype(mx.float32)
    held = [np.array(model(mx.array(tokens[None]))[0].astype(mx.float32)) for tokens, _ in prompts]
    return comparison([wanted for _, wanted in prompts], held, bound=bound)


def comparison(wanted: list[Any], held: list[Any], *, bound: float) -> dict[str, Any]:
    """Return how the logits of each prompt compare. A position differs by more than `bound` of its own greatest logit,
    or by a choice that is no tie within it."""
    found: dict[str, Any] = {"greatest_difference": 0.0, "greatest_logit": 0.0, "positions": 0, "same_argmax": 0}
    wrong: list[tuple[float, str]] = []
    for prompt, (right, other) in enumerate(zip(wanted, held, strict=True)):
        differences = np.abs(other[:, : right.shape[-1]] - right).max(-1)
        sizes = np.abs(right).max(-1)
        chosen, best = other[:, : right.shape[-1]].argmax(-1), right.argmax(-1)
        lost = right.max(-1) - np.take_along_axis(right, chosen[:, None], -1)[:, 0]
        found["greatest_difference"] = max(found["greatest_difference"], float(differences.max()))
        found["greatest_logit"] = max(found["greatest_logit"], float(sizes.max()))
        found["positions"] += len(right)
        found["same_argmax"] += int(np.count_nonzero(chosen == best))
        for position in np.flatnonzero(
            (differences > bound * sizes) | (lost > 2 * bound * sizes) | np.isnan(differences)
        ):
            share = float(differences[position] / sizes[position])
            wrong.append((share, f"token {position + 1} of prompt {prompt + 1} by {share:.2g}"))
    worst = [text for _, text in sorted(wrong, reverse=True)]
    return {**found, "differing": len(wrong), "worst": worst[:SHOWN]}


if __name__ == "__main__":
    answer_question(answer)
