"""What a build or a push has shown so far, as values; BuildKit's plain progress, read. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field


class StepStarted(Struct, frozen=True, kw_only=True):
    """One instruction of the Dockerfile, or something that BuildKit does around them."""

    id: int
    """BuildKit's number of the step; StepLine and StepDone repeat it."""
    name: str
    """`RUN pip install …`, `load build context`."""
    number: int | None = None
    """Which of `total`; None where BuildKit counts it not."""
    total: int | None = None


class StepLine(Struct, frozen=True, kw_only=True):
    """What a step prints."""

    id: int
    text: str


class StepDone(Struct, frozen=True, kw_only=True):
    id: int
    outcome: Literal["done", "cached", "failed"]
    seconds: float | None = None


class Sent(Struct, frozen=True, kw_only=True):
    """How much of the build context has been handed to the engine."""

    bytes: int
    total: int


class Layer(Struct, frozen=True, kw_only=True):
    """One layer on its way to or from a registry."""

    id: str
    """The first 12 digits of the layer's own digest."""
    state: Literal["waiting", "moving", "done", "exists"]
    bytes: int = 0
    """Moved so far; before compression when pushed."""
    total: int = 0
    """0 where the engine does not say."""


class Retrying(Struct, frozen=True, kw_only=True):
    """A push or pull was cut off, and begins again after a pause."""

    attempt: int
    """2 for the second try."""
    pause_s: float
    why: str


Event = StepStarted | StepLine | StepDone | Sent | Layer | Retrying

_STEP = re.compile(r"#(?P<id>\d+) (?P<rest>.*)")
_NUMBERED = re.compile(r"\[(?:(?P<stage>\S+) +)?(?P<number>\d+)/(?P<total>\d+)\] (?P<name>.*)")
_DONE = re.compile(r"DONE (?P<seconds>[\d.]+)s$")
_LINE = re.compile(r"[\d.]+ (?P<text>.*)")
_NOISE = re.compile(r"#\d+ sha256:[0-9a-f]{64}$|#0 |-{6}$| > |\d+\.\d+ ")
"""Digests of steps, which builder is used, and the repetition of a failed step's lines at the end."""
TAIL_LINES = 30


class BuildOutput(Struct, kw_only=True):
    """Folds the lines of `--progress=plain` into events; keeps what a failure needs to be told."""

    names: dict[int, str] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    failed: str = ""
    """Name of the step that failed."""
    error: str = ""
    """The last line that says what is wrong."""

    def events(self, line: str) -> Iterator[Event]:
        """source: buildkit@0.8 and @0.19 util/progress/progressui/printer.go."""
        if not line.strip() or _NOISE.match(line):
            return
        self.tail.append(line)
        if said := re.match(r"(?:ERROR|error|failed to solve)[^:]*: (.*)", line):
            self.error = line if line.startswith("failed") else said[1]
        if step := _STEP.match(line):
            yield from self._of_step(int(step["id"]), step["rest"])

    def _of_step(self, id: int, rest: str) -> Iterator[Event]:
        if ended := self._ending(id, rest):
            yield ended
        elif text := _LINE.match(rest):
            yield StepLine(id=id, text=text["text"])
        elif id not in self.names and rest:
            yield self._start(id, rest)

    def _ending(self, id: int, rest: str) -> StepDone | None:
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
