"""Saves what `xsft data inspect` counted, in the state folder: `xsft check` finds it by the digest of its inputs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from xsft.data.facts import CountedData
from xsft.machine.files import write_private
from xsft.machine.paths import state_dir
from xsft.machine.process import own_environment

MAX_BYTES = 64 * 1024


_COUNTED = msgspec.json.Decoder(CountedData)
"""Created at import: msgspec@0.22.0 crashes if two threads do this for one type."""


def counts_kept(address: str) -> CountedData | None:
    """Return the saved counts; None if nothing was counted, or another version of xsft wrote it."""
    try:
        return _COUNTED.decode(_counts_file(address).read_bytes()[:MAX_BYTES])
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None


def keep_counts(address: str, counted: CountedData) -> None:
    write_private(_counts_file(address), msgspec.json.encode(counted))


def _counts_file(address: str) -> Path:
    return state_dir(own_environment(), home=Path.home()) / "counted" / f"{address}.json"
