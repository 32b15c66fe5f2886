"""Progress of a build or push as values, parsed from BuildKit's plain output. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field


class StepStarted(Struct, frozen=True, kw_only=True):
    """A step begins: an instruction of the Dockerfile, or one of BuildKit's own."""

    id: int
    """BuildKit's number of the step, repeated in StepLine and StepDone."""
    name: str
    """`RUN pip install …`, `load build context`."""
    number: int | None = None
    """Position among `total`; None for a step that BuildKit does not number."""
    total: int | None = None


class StepLine(Struct, frozen=True, kw_only=True):
    """A line of output of a step."""

    id: int
    text: str


class StepDone(Struct, frozen=True, kw_only=True):
    id: int
    outcome: Literal["done", "cached", "failed"]
    seconds: float | None = None


class SentContext(Struct, frozen=True, kw_only=True):
    """The amount of build context sent to the engine."""

    bytes: int
    total: int


class Layer(Struct, frozen=True, kw_only=True):
    """A layer being pushed or pulled."""

    id: str
    """First 12 digits of the layer's digest."""
    state: Literal["waiting", "moving", "done", "exists"]
    bytes: int = 0
    """Bytes transferred so far; uncompressed when pushed."""
    total: int = 0
    """Total bytes; 0 if the engine does not report it."""


class TransferRetry(Struct, frozen=True, kw_only=True):
    """A push or pull was interrupted and is retried after a pause."""

    attempt: int
    """2 for the second try."""
    pause_s: float
    why: str


BuildEvent = StepStarted | StepLine | StepDone | SentContext | Layer | TransferRetry

_STEP = re.compile(r"#(?P<id>\d+) (?P<rest>.*)")
_NUMBERED = re.compile(r"\[(?:(?P<stage>\S+) +)?(?P<number>\d+)/(?P<total>\d+)\] (?P<name>.*)")
_DONE = re.compile(r"DONE (?P<seconds>[\d.]+)s$")
_LINE = re.compile(r"[\d.]+ (?P<text>.*)")
_NOISE = re.compile(r"#\d+ sha256:[0-9a-f]{64}$|#0 |-{6}$| > |\d+\.\d+ ")
"""Lines to skip: digests of steps, the builder's name, and the repeated lines of a failed step at the end."""
TAIL_LINES = 30


class BuildOutput(Struct, kw_only=True):
    """Parser of `--progress=plain` lines into events; keeps the lines that explain a failure."""

    names: dict[int, str] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    failed: str = ""
    """Name of the step that failed."""
    error: str = ""
    """The last line that contains an error."""

    def events(self, line: str) -> Iterator[BuildEvent]:
        """Yield the events of a line. source: buildkit@0.8 and @0.19 util/progress/progressui/printer.go."""
        if not line.strip() or _NOISE.match(line):
            return
        self.tail.append(line)
        if said := re.match(r"(?:ERROR|error|failed to solve)[^:]*: (.*)", line):
            self.error = line if line.startswith("failed") else said[1]
        if step := _STEP.match(line):
            yield from self._of_step(int(step["id"]), step["rest"])

    def _of_step(self, id: int, rest: str) -> Iterator[BuildEvent]:
        if ended := self._end_of_step(id, rest):
            yield ended
        elif text := _LINE.match(rest):
            yield StepLine(id=id, text=text["text"])
        elif id not in self.names and rest:
            yield self._start(id, rest)

    def _end_of_step(self, id: int, rest: str) -> StepDone | None:
        if rest.startswith("ERROR"):
            self.failed, self.error = self.names.get(id, ""), rest.removeprefix("ERROR").lstrip(": ")
            return StepDone(id=id, outcome="failed")
        if rest == "CACHED":
            return StepDone(id=id, outcome="cached")
        done = _DONE.match(rest)
        return StepDone(id=id, outcome="done", seconds=float(done["seconds"])) if done else None

    def _start(self, id: int, rest: str) -> StepStarted:
        numbered = _NUMBERED.match(rest)
        name = numbered["name"] if numbered else rest.removeprefix("[internal] ")
        self.names[id] = name
        if numbered is None:
            return StepStarted(id=id, name=name)
        return StepStarted(id=id, name=name, number=int(numbered["number"]), total=int(numbered["total"]))
