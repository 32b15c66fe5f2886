"""The progress of a conversion: the converter's lines, and the bytes that it has written. Pure."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

PhaseName = Literal["loading", "transforming", "saving", "saved"]


class ConversionPhase(Struct, frozen=True, kw_only=True):
    """The current phase of the converter."""

    name: PhaseName


class ArraysDone(Struct, frozen=True, kw_only=True):
    """Progress of the transformation. With lazy loading it takes no time, and the weights are read during the save."""

    done: int
    of: int


class BytesDone(Struct, frozen=True, kw_only=True):
    """Bytes of one kind of work: read of a local folder to name it, downloaded from the hub, or written below the
    folder of this attempt."""

    doing: Literal["reading", "downloading", "saving"] = "saving"
    done: int
    of: int | None
    """Estimated total; None if the model's size is unknown."""
    at: float
    """Time in seconds of a monotonic clock."""


ConversionEvent: TypeAlias = ConversionPhase | ArraysDone | BytesDone

_ARRAYS = re.compile(r"Transforming weights:.*\| *(\d{1,9})/(\d{1,9})\b")
_PHASES: tuple[tuple[str, PhaseName], ...] = (
    ("Initializing LazyHFLoader", "loading"),
    ("Loading full HuggingFace model", "loading"),
    ("Starting weight transformation", "transforming"),
    ("Starting checkpoint save", "saving"),
    ("Conversion complete. Checkpoint saved to", "saved"),
)
"""source: maxtext@0.2.5 checkpoint_conversion/to_maxtext.py, main; the bar is utils/utils.py MemoryMonitorTqdm."""

_BAR = re.compile(
    r"(?P<file>[\w.-]+\.safetensors): +[0-9]+%\|[^|]*\| *(?P<done>[0-9.]+\w?)/(?P<of>[0-9.]+\w?)"
    r" \[[0-9:]+<(?P<left>[0-9:]+), *(?P<rate>[0-9.]+ ?\w?B/s)"
)
"""A bar of a download. source: tqdm@4.67 std.py format_meter, as huggingface_hub@2.4.0 utils/tqdm.py uses it."""


def download_text(line: str) -> str | None:
    """Return the progress of a download in a line of the converter, with the rate and the time left that the bar tells;
    None for another line."""
    bar = _BAR.search(line)
    if bar is None:
        return None
    return f"downloading {bar['file']}: {bar['done']} of {bar['of']}, {bar['rate']}, {bar['left']} left"


WINDOW_S = 20.0
"""Seconds over which a rate is measured."""


def conversion_event(line: str) -> ConversionEvent | None:
    """Return the event in a line; None for a line without progress."""
    if "Transforming weights:" in line and (bar := _ARRAYS.search(line)):
        return ArraysDone(done=int(bar[1]), of=int(bar[2]))
    return next((ConversionPhase(name=name) for words, name in _PHASES if words in line), None)


class ProgressSample(Struct, frozen=True, kw_only=True):
    """The progress at one time."""

    done: int
    of: int | None
    at: float


class ConversionPace:
    """The pace of one kind of work: bytes or arrays per second, and the seconds that are left."""

    def __init__(self) -> None:
        self._seen: list[ProgressSample] = []

    def add(self, *, done: int, of: int | None, at: float) -> None:
        """Add a measurement; `at`: seconds of a monotonic clock."""
        self._seen = [sample for sample in self._seen if at - sample.at <= WINDOW_S] + [
            ProgressSample(done=done, of=of, at=at)
        ]

    @property
    def rate(self) -> float | None:
        """Return the pace per second; None before two measurements."""
        if len(self._seen) < 2:
            return None
        first, last = self._seen[0], self._seen[-1]
        return (last.done - first.done) / (last.at - first.at) if last.at > first.at else None

    @property
    def left_s(self) -> float | None:
        """Return the seconds that are left; None if the total is unknown or there is no progress."""
        last, rate = self._seen[-1] if self._seen else None, self.rate
        if last is None or last.of is None or not rate:
            return None
        return max(0, last.of - last.done) / rate
