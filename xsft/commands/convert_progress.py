"""Progress of a conversion on stderr: the last line on a terminal, else a line every ten seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xsft.commands.live import clock_text
from xsft.commands.progress import shown
from xsft.conversion.plan import ConversionPlan
from xsft.conversion.progress import ArraysDone, BytesDone, ConversionEvent, ConversionPace, ConversionPhase
from xsft.effects.machine import clock

EVERY_S = 10.0
"""Seconds between plain lines of progress."""


@contextmanager
def converting(plan: ConversionPlan) -> Iterator[ConversionDisplay]:
    """Yield the display that takes the converter's events."""
    with shown("convert") as say:
        if plan.whole is None:
            say(f"{plan.inputs.source.repo} for {plan.inputs.model}")
        yield ConversionDisplay(say, every_s=0 if sys.stderr.isatty() else EVERY_S)


class ConversionDisplay:
    """Display of a conversion: each phase at once, numbers every `every_s` seconds."""

    def __init__(
        self, say: Callable[[str], None], *, every_s: float, now: Callable[[], float] = clock.monotonic
    ) -> None:
        self.say = say
        self._every_s, self._now, self._pace = every_s, now, ConversionPace()
        self._next = now() + every_s

    def on_event(self, event: ConversionEvent) -> None:
        text = event_text(event, self._pace)
        if text is None or (not isinstance(event, ConversionPhase) and self._now() < self._next):
            return
        self._next = self._now() + self._every_s
        self.say(text)


def size_text(size: float) -> str:
    """Return a size as text: `63 kB`, `1.9 GB`; powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.2g} {unit}" if size < 10 else f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def event_text(event: ConversionEvent, pace: ConversionPace) -> str | None:
    """Return an event as text, e.g. `saving 1.2 GB of about 16 GB, 210 MB/s, 1:10 left`."""
    match event:
        case ConversionPhase(name=name):
            return None if name == "saved" else name
        case ArraysDone(done=done, of=of):
            return f"transforming {done} of {of} arrays"
        case BytesDone(done=done, of=of):
            if done == 0:  # loading: a rate would be none of the save's
                return None
            pace.add(event)
            if not pace.rate:
                return None
            whole = f" of about {size_text(of)}" if of else ""
            left = f", {clock_text(pace.left_s)} left" if pace.left_s is not None else ""
            return f"saving {size_text(done)}{whole}, {size_text(pace.rate)}/s{left}"
