"""Finds the trace that the profiler of a training wrote on this machine."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from xsft.trainer.tensorboard import tensorboard_folder


class ProfilerTrace(Struct, frozen=True, kw_only=True):
    """A trace in XPlane's format."""

    path: Path
    bytes: int


def newest_trace(folder: Path) -> ProfilerTrace | None:
    """Return the newest trace of a run; None without one. `folder`: `<output>/<run name>`.

    source: jax@0.11 profiler.py: `<log_dir>/plugins/profile/<time>/<host>.xplane.pb`.
    """
    found = Path(tensorboard_folder(str(folder)), "plugins", "profile").glob("*/*.xplane.pb")
    newest = max(found, key=lambda path: (path.parent.name, path.name), default=None)
    return ProfilerTrace(path=newest, bytes=newest.stat().st_size) if newest else None
