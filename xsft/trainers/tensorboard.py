"""The folder of MaxText's TensorBoard files. Pure.

source: maxtext@0.2.5 configs/types.py (tensorboard_dir), trainers/post_train/sft/train_sft.py: metrics and profiles go
there; TensorBoard's own layout puts profiles below plugins/profile.
"""

from __future__ import annotations

from collections.abc import Iterator

from xsft.spec.resolve import Run


def tensorboard_lines(run: Run, *, folder: str) -> Iterator[str]:
    """Yield lines for a report. `folder`: `<output>/<run name>`."""
    shown = f"{folder.rstrip('/')}/tensorboard"
    yield f"tensorboard  {shown}"
    if run.spec.train.profiler is not None:
        yield f"profile      {shown}/plugins/profile"
