"""A local run while it runs: a bar on a terminal, else a plain line per second at most. Both on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from msgspec import Struct, field

from xsft.trainers.lines import DataEnded, Evaluated, Event, LoopFinished, Phase, Restored, Saved, Step

OnEvent = Callable[[Event], None]

EVERY_S = 1.0
"""Seconds between plain lines."""


@contextmanager
def live(*, steps: int, stream: TextIO, monotonic: Callable[[], float]) -> Iterator[OnEvent]:
    """Yields what takes the trainer's events."""
    if not stream.isatty():
        yield _Plain(steps=steps, stream=stream, monotonic=monotonic).on_event
        return
    with _bar(steps=steps, stream=stream) as on_event:
        yield on_event


class _Pace(Struct, kw_only=True):
    """Seconds per step, compilation left out."""

    steps: int
    done: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, event: Step) -> None:
        if self.done and event.seconds is not None:
            self.seconds.append(event.seconds)
        self.done = event.step

    @property
    def eta_s(self) -> float | None:
        recent = self.seconds[-20:]
        return (self.steps - self.done) * sum(recent) / len(recent) if recent else None


def step_text(event: Step, *, steps: int, eta_s: float | None) -> str:
    """`step 12/40  loss 3.412  10,954 tokens/s  ETA 0:03`."""
    parts = [f"step {event.step}/{steps}", f"loss {event.loss:.3f}"]
    if event.tokens_per_second is not None:
        parts.append(f"{event.tokens_per_second:,.0f} tokens/s")
    if eta_s is not None and event.step < steps:
        parts.append(f"ETA {clock_text(eta_s)}")
    return "  ".join(parts)


def clock_text(seconds: float) -> str:
    """`0:07`, `12:30`, `3:04:05`."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def said_at_once(event: Event) -> str | None:
    """What is worth a line of its own."""
    match event:
        case Phase(name=name):
            return name
        case Restored(step=step):
            return f"resumed from step {step}"
        case Saved(step=step):
            return f"saved checkpoint {step}"
        case Evaluated(step=step, loss=loss):
            return f"evaluation after step {step}: loss {loss:.3f}"
        case DataEnded():
            return "the data ended"
        case _:
            return None


class _Plain:
    """The first and last step always, others when a second has passed."""

    def __init__(self, *, steps: int, stream: TextIO, monotonic: Callable[[], float]) -> None:
        self._pace = _Pace(steps=steps)
        self._stream = stream
        self._monotonic = monotonic
        self._said_at = float("-inf")
        self._waiting: Step | None = None

    def on_event(self, event: Event) -> None:
        if isinstance(event, Step):
            self._step(event)
        elif text := said_at_once(event):
            self._flush()
            self._say(text)

    def _step(self, event: Step) -> None:
        self._pace.add(event)
        self._waiting = event
        if event.step == self._pace.steps or self._monotonic() - self._said_at >= EVERY_S:
            self._flush()

    def _flush(self) -> None:
        if self._waiting is not None:
            self._said_at = self._monotonic()
            self._say(step_text(self._waiting, steps=self._pace.steps, eta_s=self._pace.eta_s))
            self._waiting = None

    def _say(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


@contextmanager
def _bar(*, steps: int, stream: TextIO) -> Iterator[OnEvent]:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from xsft.commands.console import console

    pace = _Pace(steps=steps)
    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), BarColumn(bar_width=14), text, TimeElapsedColumn())
    with Progress(*columns, console=console(stream), transient=True) as display:
        task = display.add_task("starting the trainer", total=steps)

        def on_event(event: Event) -> None:
            if isinstance(event, Step):
                pace.add(event)
                shown = step_text(event, steps=steps, eta_s=pace.eta_s)
                display.update(task, completed=event.step, description=shown)
            elif isinstance(event, Phase):
                display.update(task, description=event.name)
            elif isinstance(event, LoopFinished):
                display.update(task, description="saving the last checkpoint")
            elif said := said_at_once(event):
                display.console.print(said, markup=False, highlight=False)

        yield on_event
