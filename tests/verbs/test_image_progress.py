"""Progress as lines, for logs; and as a bar, which takes every event."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from xsft.image.progress import BuildEvent, Layer, SentContext, StepDone, StepLine, StepStarted, TransferRetry
from xsft.verbs.image_progress import BarDisplay, Layers, LineDisplay, show_image_work

EVENTS: tuple[BuildEvent, ...] = (
    StepStarted(id=1, name="load build context"),
    SentContext(bytes=10, total=20),
    StepStarted(id=2, name="RUN pip install\nsecond line", number=1, total=2),
    StepLine(id=2, text="Collecting numpy"),
    StepDone(id=2, outcome="done", seconds=1.5),
    Layer(id="a", state="exists"),
    Layer(id="b", state="moving", bytes=500, total=2000),
    TransferRetry(attempt=2, pause_s=1.0, why="503"),
    Layer(id="b", state="moving", bytes=2000, total=2000),
    Layer(id="b", state="done"),
)


def test_a_log_has_a_line_for_each_begin_retry_and_transfer() -> None:
    said: list[str] = []
    lines = LineDisplay(said.append)
    lines.say("building code-1")
    for event in EVENTS:
        lines.event(event)
    assert said == [
        "building code-1",
        "[1/2] RUN pip install",
        "layers: 0 bytes of 0 layers, 1 there already",
        "try 2 in 1 s: 503",
        "layers: 2 kB of 1 layers, 1 there already",
    ]


def test_a_log_has_a_progress_line_each_minute() -> None:
    said: list[str] = []
    lines = LineDisplay(said.append)
    lines.beat()
    lines.say("building deps-1")
    lines.beat()
    lines.event(StepStarted(id=2, name="RUN install", number=1, total=2))
    lines.event(StepLine(id=2, text="Prepared 12 packages"))
    lines.beat()
    lines.say("pushing r:deps-1")
    lines.event(Layer(id="a", state="moving", bytes=300_000_000, total=800_000_000))
    lines.beat()
    assert [line for line in said if " min" in line] == [
        "2 min: building deps-1",
        "3 min: [1/2] RUN install: Prepared 12 packages",
        "4 min: pushing r:deps-1: 300 MB of 800 MB",
    ]


def test_without_a_terminal_progress_lines_continue_until_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    said = ""
    with show_image_work("xsft image", every_s=0.01) as display:
        display.say("building")
        while said.count(" min: building") < 2:
            said += capsys.readouterr().err
    assert [thread.name for thread in threading.enumerate() if thread.name == "xsft-beat"] == []


def test_bytes_of_layers_add_up_and_start_anew_with_the_next_push() -> None:
    layers = Layers()
    for event in EVENTS:
        if isinstance(event, Layer):
            layers.add(event)
    assert (layers.moved, layers.total) == (2000, 2000)
    said: list[str] = []
    lines = LineDisplay(said.append)
    for name in ("first", "second"):
        lines.say(name)
        lines.event(Layer(id="x", state="exists"))
    assert said.count("layers: 0 bytes of 0 layers, 1 there already") == 2


def test_a_terminal_shows_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        bars = BarDisplay("xsft image", stack)
        bars.say("building code-1")
        for event in EVENTS:
            bars.event(event)
        display, task = bars._shown or (None, None)
        assert display is not None
        (shown,) = display.tasks
        assert shown.id == task
        assert (shown.completed, shown.total, shown.description) == (2000, 2000, "building code-1")
        assert shown.fields["said"] == "2 kB of 1 layers, 1 there already"
    assert capsys.readouterr().out == ""
