"""Types for logs: the processes of a run, their lines, and which lines were already yielded. Makes no requests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct, field

from xsft.launchers.labels import COMPLETION_INDEX, JOBSET_NAME
from xsft.reading.pods import JOB_INDEX, REPLICATED_JOB
from xsft.trainers.progress import LoggedLine, sortable

_FRACTION = re.compile(r"\.\d+")


class ProcessRole(Struct, frozen=True, kw_only=True):
    """A process, identified by its place in the JobSet; its pod may be replaced."""

    replicated_job: str
    slice_index: int
    host: int

    def selector(self, jobset: str) -> str:
        return (
            f"{JOBSET_NAME}={jobset},{REPLICATED_JOB}={self.replicated_job},"
            f"{JOB_INDEX}={self.slice_index},{COMPLETION_INDEX}={self.host}"
        )


class LogLine(Struct, frozen=True, kw_only=True):
    role: ProcessRole
    pod: str
    at: str
    """RFC 3339 with nanoseconds; empty for a line written by the kubelet itself."""
    text: str
    attempt: int = 0
    """The restart-attempt of its Job."""


class Mark(Struct, frozen=True, kw_only=True):
    """A mark between two lines: what happened to the process that prints them."""

    text: str


class Pace(Struct, frozen=True, kw_only=True):
    poll_s: float = 2.0
    """Interval between checks for a missing pod or for the end of the run."""
    longest_wait_s: float = 15.0
    """Longest wait before a retry if a cluster does not answer."""
    silence_s: float = 60.0
    """A stream without a line for this long is reopened: its connection may be dead."""
    first_s: float = 8.0
    """The same for a stream without a first line: a kubelet sends not even headers before that line."""
    look_s: float = 4.0
    """Interval between checks whether a silent stream still belongs to the current process. The stream of a node that
    is gone is never closed by the server.
    """


class Given(Struct, kw_only=True):
    """The lines already yielded that a reopened log can repeat: those of the last second."""

    since: str | None = None
    floor: str = ""
    """Time of the first line of the requested tail. Older lines were not requested."""
    lines: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, line: LoggedLine) -> None:
        second = _FRACTION.sub("", line.at)
        if line.at and second != self.since:
            self.since = second
            self.lines.clear()
        self.lines[line.at, line.text] += 1

    def new(self, lines: Iterator[LoggedLine]) -> Iterator[LoggedLine]:
        """Yield the lines of a reopened log that were not yielded before."""
        left = Counter(self.lines)
        for line in lines:
            if left[line.at, line.text] > 0:
                left[line.at, line.text] -= 1
                continue
            if line.at and sortable(line.at) < sortable(self.floor):
                continue
            self.add(line)
            yield line
