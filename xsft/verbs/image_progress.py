"""Progress of a build or a push on stderr: a bar and the last line on a terminal; elsewhere a plain line per step, and
one per minute."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec import Struct, field

from xsft.base.amounts import size_text
from xsft.image.progress import BuildEvent, Layer, SentContext, StepDone, StepLine, StepStarted, TransferRetry
from xsft.launch.image_work import ImageDisplay
from xsft.machine.parallel import repeat_call

EVERY_S = 60.0


@contextmanager
def show_image_work(title: str, *, every_s: float = EVERY_S) -> Iterator[ImageDisplay]:
    """Yield the display; rich is imported only on a terminal, and only once there is something to show."""
    if not sys.stderr.isatty():
        lines = LineDisplay(lambda line: print(f"xsft: {line}", file=sys.stderr, flush=True))
        with repeat_call(lines.beat, every_s=every_s):
            yield lines
        return
    with ExitStack() as stack:
        yield BarDisplay(title, stack)


class Layers(Struct):
    """The sum over the layers of one push or pull."""

    seen: dict[str, Layer] = field(default_factory=dict)

    def add(self, layer: Layer) -> None:
        before = self.seen.get(layer.id)
        if before and layer.state == "done" and not layer.total:
            layer = Layer(id=layer.id, state="done", bytes=before.total, total=before.total)
        self.seen[layer.id] = layer

    @property
    def moved(self) -> int:
        return sum(layer.bytes for layer in self.seen.values())

    @property
    def total(self) -> int:
        return sum(layer.total for layer in self.seen.values())

    def words(self) -> str:
        existing = sum(layer.state == "exists" for layer in self.seen.values())
        return f"{size_text(self.moved)} of {len(self.seen) - existing} layers, {existing} there already"


class LineDisplay:
    """Display for log files: each start, failure and finished transfer, and once a minute the current step."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._layers = Layers()
        self._doing, self._last, self._beats = "", "", 0
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        with self._lock:
            self._begin(line)

    def event(self, event: BuildEvent) -> None:
        with self._lock:
            self._event(event)

    def beat(self) -> None:
        """Print a line once a minute: a job whose log stays silent looks dead."""
        with self._lock:
            self._beats += 1
            if self._doing:
                self._write(": ".join(filter(None, (f"{self._beats} min", self._doing, self._last))))

    def _begin(self, doing: str) -> None:
        self._write(doing)
        self._layers, self._doing, self._last = Layers(), doing, ""

    def _event(self, event: BuildEvent) -> None:
        match event:
            case StepStarted(name=name, number=number, total=total) if number:
                self._begin(f"[{number}/{total}] {_first_line(name)}")
            case StepLine(text=text):
                self._last = _first_line(text)
            case SentContext(bytes=sent, total=total):
                self._last = f"context: {size_text(sent)} of {size_text(total)}"
            case TransferRetry(attempt=attempt, pause_s=pause, why=why):
                self._write(f"try {attempt} in {pause:g} s: {why}")
            case Layer():
                self._layer(event)
                self._last = f"{size_text(self._layers.moved)} of {size_text(self._layers.total)}"
            case _:
                pass

    def _layer(self, layer: Layer) -> None:
        """Print a line once, when the last layer has arrived."""
        before = self._layers.seen.get(layer.id)
        self._layers.add(layer)
        ended = all(one.state in {"done", "exists"} for one in self._layers.seen.values())
        if ended and (before is None or before.state != layer.state):
            self._write(f"layers: {self._layers.words()}")


class BarDisplay:
    """Display for terminals: one bar for the current step, with the last line that the step printed."""

    def __init__(self, title: str, stack: ExitStack) -> None:
        self._title = title
        self._stack = stack
        self._shown: tuple[Any, Any] | None = None
        self._layers = Layers()
        self._phase = title

    def say(self, line: str) -> None:
        self._layers, self._phase = Layers(), line
        self._update(description=line, completed=0, total=None, said="")

    def event(self, event: BuildEvent) -> None:
        match event:
            case StepStarted(name=name, number=number, total=total) if number:
                self._update(completed=number - 1, total=total, said=_first_line(name))
            case StepLine(text=text):
                self._update(said=_first_line(text))
            case StepDone() | StepStarted():
                pass
            case SentContext(bytes=sent, total=total):
                self._update(said=f"context: {size_text(sent)} of {size_text(total)}")
            case Layer():
                self._layers.add(event)
                self._update(completed=self._layers.moved, total=self._layers.total or None, said=self._layers.words())
            case TransferRetry(attempt=attempt, pause_s=pause, why=why):
                self._update(said=f"try {attempt} in {pause:g} s: {why}")

    def _update(self, **changes: Any) -> None:
        display, task = self._shown or self._start()
        display.update(task, **changes)

    def _start(self) -> tuple[Any, Any]:
        from xsft.verbs.bars import image_bar

        display = self._stack.enter_context(image_bar(sys.stderr))
        self._shown = (display, display.add_task(self._title, total=None, said=""))
        return self._shown


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 100 else f"{line[:97]}…"
