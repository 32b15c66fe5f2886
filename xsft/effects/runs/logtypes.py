"""Processes of a run, what they say, and which of it was given already. No requests here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct, field

from xsft.launchers.labels import COMPLETION_INDEX, JOBSET_NAME
from xsft.reading.pods import JOB_INDEX, REPLICATED_JOB
from xsft.trainers.progress import Said, sortable

_FRACTION = re.compile(r"\.\d+")


class Role(Struct, frozen=True, kw_only=True):
    """A process by its place in the JobSet; its pod may be replaced."""

    replicated_job: str
    slice_index: int
    host: int

    def selector(self, jobset: str) -> str:
        return (
            f"{JOBSET_NAME}={jobset},{REPLICATED_JOB}={self.replicated_job},"
            f"{JOB_INDEX}={self.slice_index},{COMPLETION_INDEX}={self.host}"
        )


class LogLine(Struct, frozen=True, kw_only=True):
    role: Role
    pod: str
    at: str
    """RFC 3339 with nanoseconds; empty for the kubelet's own words."""
    text: str
    attempt: int = 0
    """restart-attempt of its Job."""


class Mark(Struct, frozen=True, kw_only=True):
    """Between two lines: what happened to the process that says them."""

    text: str


class Pace(Struct, frozen=True, kw_only=True):
    poll_s: float = 2.0
    """Between two looks for a pod that is not there, or an end."""
    longest_wait_s: float = 15.0
    """Before asking a cluster again that does not answer."""
    silence_s: float = 60.0
    """A stream that says nothing for so long is opened anew: its connection may be dead."""
    first_s: float = 8.0
    """The same of one that has said nothing yet: a kubelet sends not even headers before the first line."""
    look_s: float = 4.0
    """Where a stream says nothing: between two looks whether its process is still the one. Nobody closes the stream of
    a node that is gone.
    """


class Given(Struct, kw_only=True):
    """Lines that were given already, as far as a reopened log repeats them: those of the last second."""

    since: str | None = None
    floor: str = ""
    """Where a tail was asked for: the time of its first line. What is older was not asked for."""
    lines: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, line: Said) -> None:
        second = _FRACTION.sub("", line.at)
        if line.at and second != self.since:
            self.since = second
            self.lines.clear()
        self.lines[line.at, line.text] += 1

    def new(self, lines: Iterator[Said]) -> Iterator[Said]:
        """Those of a reopened log that were not given before."""
        left = Counter(self.lines)
        for line in lines:
            if left[line.at, line.text] > 0:
                left[line.at, line.text] -= 1
                continue
            if line.at and sortable(line.at) < sortable(self.floor):
                continue
            self.add(line)
            yield line
