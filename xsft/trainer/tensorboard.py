"""The folder of MaxText's TensorBoard files. Pure.

source: maxtext@0.2.5 configs/types.py (tensorboard_dir), trainers/post_train/sft/train_sft.py: metrics and profiles go
there; TensorBoard's own layout puts profiles below plugins/profile.
"""

from __future__ import annotations

from collections.abc import Iterator

from xsft.spec.resolve import Run

OPENER = ("uvx", "--from", "tensorboard==2.21.0", "--with", "xprof==2.24.2", "tensorboard", "--logdir")
"""TensorBoard on 127.0.0.1 with its profile plugin, in an environment of uv's; a test opens a trace with it."""


def tensorboard_lines(run: Run, *, folder: str) -> Iterator[str]:
    """Yield lines for a report. `folder`: `<output>/<run name>`."""
    shown = tensorboard_folder(folder)
    yield f"tensorboard  {shown}"
    if run.spec.train.profiler is not None:
        yield f"profile      {shown}/plugins/profile"


def tensorboard_folder(folder: str) -> str:
    """Return the folder of the TensorBoard files. `folder`: `<output>/<run name>`."""
    return f"{folder.rstrip('/')}/tensorboard"


def open_command(folder: str) -> tuple[str, ...]:
    """Return the command that shows curves and traces of a run on this machine. `folder`: `<output>/<run name>`."""
    return (*OPENER, tensorboard_folder(folder))
