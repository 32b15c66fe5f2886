"""Progress of a conversion on stderr: the last line on a terminal, else a line every ten seconds."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xsft.base.amounts import size_text
from xsft.machine import clock
from xsft.verbs.live import clock_text
from xsft.verbs.progress import show_progress
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.conversion_progress import (
    ArraysDone,
    BytesDone,
    ConversionEvent,
    ConversionPace,
    ConversionPhase,
    conversion_event,
    download_text,
)

EVERY_S = 10.0
"""Seconds between plain lines of progress."""


@contextmanager
def show_conversion(plan: ConversionPlan) -> Iterator[ConversionDisplay]:
    """Yield the display that takes the converter's events."""
    with show_progress("convert") as say:
        if plan.whole is None:
            unknown = "" if plan.estimate else "; its size is unknown: memory and disk are not checked"
            say(f"{plan.inputs.source.repo} for {plan.inputs.model}{unknown}")
        yield ConversionDisplay(say, every_s=0 if sys.stderr.isatty() else EVERY_S)


@contextmanager
def reading_weights() -> Iterator[ConversionDisplay]:
    """Yield the display that takes the bytes read of a folder of weights."""
    with show_progress("convert") as say:
        yield ConversionDisplay(say, every_s=0.5 if sys.stderr.isatty() else EVERY_S)


class ConversionDisplay:
    """Display of a conversion: each phase at once, numbers every `every_s` seconds."""

    def __init__(
        self, say: Callable[[str], None], *, every_s: float, now: Callable[[], float] = clock.monotonic
    ) -> None:
        self.say = say
        self._every_s, self._now = every_s, now
        self._paces: defaultdict[str, ConversionPace] = defaultdict(ConversionPace)
        self._next = now() + every_s

    def on_event(self, event: ConversionEvent) -> None:
        self._show(self._text(event), at_once=isinstance(event, ConversionPhase))

    def on_line(self, line: str) -> None:
        """Show what a line of the converter tells; a bar returns to the start of its line."""
        for part in line.splitlines():
            event = conversion_event(part)
            if event is not None:
                self.on_event(event)
            else:
                self._show(download_text(part), at_once=False)

    def _show(self, text: str | None, *, at_once: bool) -> None:
        if text is None or (not at_once and self._now() < self._next):
            return
        self._next = self._now() + self._every_s
        self.say(text)

    def _text(self, event: ConversionEvent) -> str | None:
        match event:
            case ConversionPhase(name=name):
                return None if name == "saved" else name
            case ArraysDone(done=done, of=of):
                pace = self._paces["arrays"]
                pace.add(done=done, of=of, at=self._now())
                rate = f", {pace.rate:.2g}/s" if pace.rate else ""
                return f"transforming {done} of {of} arrays{rate}{_time_left(pace)}"
            case BytesDone(doing=doing, done=done, of=of, at=at):
                if done == 0:  # not started: the rate would be too low
                    return None
                pace = self._paces[doing]
                pace.add(done=done, of=of, at=at)
                if not pace.rate:
                    return None
                whole = f" of about {size_text(of)}" if of else ""
                return f"{doing} {size_text(done)}{whole}, {size_text(pace.rate)}/s{_time_left(pace)}"


def _time_left(pace: ConversionPace) -> str:
    return f", {clock_text(pace.left_s)} left" if pace.left_s is not None else ""
