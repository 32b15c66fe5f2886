"""Saves what `xsft data inspect` counted, in the state folder: `xsft check` finds it by the digest of its inputs."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from xsft.base.problems import Problem
from xsft.data.facts import CountedData
from xsft.machine.files import write_private
from xsft.machine.paths import state_dir
from xsft.machine.process import own_environment

MAX_BYTES = 64 * 1024


class _CountedFile(Struct, frozen=True):
    problems: tuple[Problem, ...]
    rows: str
    on: str


_COUNTED = msgspec.json.Decoder(_CountedFile)
"""Created at import: msgspec@0.22.0 crashes if two threads do this for one type."""


def counts_kept(address: str) -> CountedData | None:
    """Return the saved counts; None if nothing was counted, or another version of xsft wrote it."""
    try:
        stored = _COUNTED.decode(_counts_file(address).read_bytes()[:MAX_BYTES])
    except (OSError, msgspec.MsgspecError):
        return None
    return CountedData(problems=stored.problems, rows=stored.rows, on=stored.on)


def keep_counts(address: str, counted: CountedData) -> None:
    content = msgspec.json.encode(_CountedFile(counted.problems, counted.rows, counted.on))
    write_private(_counts_file(address), content)


def _counts_file(address: str) -> Path:
    return state_dir(own_environment(), home=Path.home()) / "counted" / f"{address}.json"
