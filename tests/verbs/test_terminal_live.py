from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from xsft.trainer.lines import (
    CheckpointRestored,
    DataEnded,
    EvaluationLoss,
    LoopFinished,
    PhaseStarted,
    SaveFinished,
    Step,
    TrainerEvent,
)
from xsft.verbs.terminal import clock_text, live, step_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def step(number: int, *, seconds: float = 2.0) -> Step:
    return Step(step=number, loss=7 - number / 10, seconds=seconds, tokens_per_second=1234.5)


def ticks(every_s: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += every_s


def told(
    events: list[TrainerEvent], *, every_s: float, stream: io.StringIO | None = None, steps: int = 10
) -> list[str]:
    stream = stream or io.StringIO()
    clock = ticks(every_s)
    with live(steps=steps, stream=stream, monotonic=lambda: next(clock)) as on_event:
        for event in events:
            on_event(event)
    return stream.getvalue().splitlines()


def test_a_step_line_shows_loss_pace_and_time_left() -> None:
    assert step_text(step(3), steps=10, eta_s=14.2) == "step 3/10  loss 6.700  1,234 tokens/s  ETA 0:14"
    assert step_text(Step(step=10, loss=1.0), steps=10, eta_s=0.0) == "step 10/10  loss 1.000"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (754, "12:34"), (11045, "3:04:05")])
def test_durations_are_printed_in_readable_units(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def test_plain_lines_come_at_most_once_a_second_and_the_last_step_always() -> None:
    lines = told([step(n) for n in range(1, 11)], every_s=0.1)
    assert len(lines) < 6
    assert lines[0].startswith("step 1/10")
    assert lines[-1].startswith("step 10/10")


def test_all_slow_steps_are_reported_and_the_estimate_excludes_compilation() -> None:
    lines = told([step(1, seconds=100.0), step(2), step(3)], every_s=5)
    assert [line.split("  ")[0] for line in lines] == ["step 1/10", "step 2/10", "step 3/10"]
    assert "ETA" not in lines[0]
    assert lines[1].endswith("ETA 0:16")


def test_events_of_the_training_have_lines_of_their_own() -> None:
    events: list[TrainerEvent] = [
        PhaseStarted(name="compiling"),
        CheckpointRestored(step=4),
        SaveFinished(step=6, path="/c/6"),
        EvaluationLoss(step=6, loss=1.5),
        DataEnded(detail=""),
        LoopFinished(seconds=1.0),
    ]
    assert told(events, every_s=0) == [
        "compiling",
        "resumed from step 4",
        "saved checkpoint 6",
        "evaluation after step 6: loss 1.500",
        "the data ended",
    ]


def test_a_terminal_gets_a_bar_and_keeps_the_lines_of_events() -> None:
    shown = told(
        [PhaseStarted(name="compiling"), step(1), SaveFinished(step=1, path="/c/1"), step(10)],
        every_s=1,
        stream=Terminal(),
    )
    assert any("saved checkpoint 1" in line for line in shown)
