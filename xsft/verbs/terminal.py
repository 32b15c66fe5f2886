"""The listener of the command line: what actions report goes to stderr."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TextIO

from msgspec import Struct, field

from xsft.base.amounts import size_text
from xsft.base.reporting import ProgressView, Reporter, TakeEvent
from xsft.evaluation.report import EvaluationReport
from xsft.launch.identity import Proposal
from xsft.launch.local_run import TrainedHere, TrainingHere
from xsft.launch.submission import Submission
from xsft.launch.submit import SubmissionBegins
from xsft.launch.wait_for_end import UnexpectedEnd
from xsft.machine import clock
from xsft.machine.clock import monotonic
from xsft.stages.convert_stage import ConvertingOnCluster, ReadingWeights
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
from xsft.verbs.document import print_problems, print_to_stderr, show_progress, show_spinner
from xsft.verbs.submission import print_created, proposal_lines, resource_lines, show_result
from xsft.verbs.why_text import cause_lines, log_lines
from xsft.weights.conversion_plan import (
    ArraysDone,
    BytesDone,
    ConversionEvent,
    ConversionPace,
    ConversionPhase,
    ConversionPlan,
    conversion_event,
    download_text,
)

TAIL = 20
"""Log lines shown of the process that failed first, if a run fails."""


ShownEvent = SubmissionBegins | Proposal | Submission | UnexpectedEnd | TrainedHere | EvaluationReport
"""Every type of event; mypy asks `_show_event` for a case of each."""
ShownActivity = TrainingHere | ReadingWeights | ConversionPlan | ConvertingOnCluster


def terminal(stream: TextIO | None = None, *, as_json: bool = False) -> Reporter:
    """Return what shows everything on stderr, or trainings on another stream. Submissions are printed on stdout, which
    `as_json` keeps for the document."""
    stream = stream or sys.stderr
    spinners: list[ProgressView] = []

    @contextmanager
    def working(title: str) -> Iterator[ProgressView]:
        clear()
        with show_progress(title) as view:
            spinners.append(view)
            yield view
            spinners.remove(view)

    def clear() -> None:
        """Clear the spinners, before anything else is shown, which would share their line."""
        for view in spinners:
            view.pause()

    def below(show: Callable[..., Any]) -> Callable[..., Any]:
        def show_below(*arguments: Any) -> Any:
            clear()
            return show(*arguments)

        return show_below

    return Reporter(
        working=working,
        waiting=below(show_spinner),
        say=below(print_to_stderr),
        warn=below(print_problems),
        tell=below(partial(_show_event, stream=stream, as_json=as_json)),
        display=below(partial(_show_activity, stream=stream)),
    )


def _show_event(event: ShownEvent, *, stream: TextIO, as_json: bool) -> None:
    match event:
        case SubmissionBegins(plan=plan):
            sys.stderr.writelines(f"{line}\n" for line in resource_lines(plan))
        case Proposal():
            sys.stderr.writelines(f"{line}\n" for line in proposal_lines(event))
        case Submission():
            if not as_json:
                print_created(event)
        case UnexpectedEnd(evidence=evidence, cause=cause):
            for line in (*log_lines(evidence, tail=TAIL), *cause_lines(cause)):
                print_to_stderr(line)
        case TrainedHere(plan=plan, result=result, picture=picture):
            show_result(plan, result, picture, stream=stream)
        case EvaluationReport():
            from xsft.verbs.console import print_evaluation  # through rich

            print_evaluation(event, stream=stream)


def _show_activity(activity: ShownActivity, *, stream: TextIO) -> AbstractContextManager[TakeEvent]:
    match activity:
        case TrainingHere(steps=steps):
            return live(steps, stream=stream, monotonic=monotonic)
        case ReadingWeights():
            return reading_weights()
        case ConversionPlan():
            return show_conversion(activity)
        case ConvertingOnCluster():
            return nullcontext(ConversionDisplay(print_to_stderr, every_s=CONVERSION_EVERY_S))


OnEvent = Callable[[TrainerEvent], None]

EVERY_S = 1.0
"""Seconds between plain lines of a training."""
CONVERSION_EVERY_S = 10.0
"""Seconds between plain lines of a conversion."""


@contextmanager
def live(steps: int, *, stream: TextIO, monotonic: Callable[[], float]) -> Iterator[OnEvent]:
    """Yield the function that takes the trainer's events."""
    if not stream.isatty():
        yield _PlainProgress(steps=steps, stream=stream, monotonic=monotonic).on_event
        return
    with _bar(steps=steps, stream=stream) as on_event:
        yield on_event


class _StepPace(Struct, kw_only=True):
    """Pace of a run in seconds per step, without compilation."""

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
    """Return a step as text, e.g. `step 12/40  loss 3.412  10,954 tokens/s  ETA 0:03`."""
    parts = [f"step {event.step}/{steps}", f"loss {event.loss:.3f}"]
    if event.tokens_per_second is not None:
        parts.append(f"{event.tokens_per_second:,.0f} tokens/s")
    if eta_s is not None and event.step < steps:
        parts.append(f"ETA {clock_text(eta_s)}")
    return "  ".join(parts)


def clock_text(seconds: float) -> str:
    """Return the seconds as a clock shows them: `0:07`, `12:30`, `3:04:05`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minute:02}:{second:02}"
    return f"{minute}:{second:02}"


def immediate_line(event: TrainerEvent) -> str | None:
    """Return the line for an event that is printed at once; None for others."""
    match event:
        case PhaseStarted(name=name):
            return name
        case CheckpointRestored(step=step):
            return f"resumed from step {step}"
        case SaveFinished(step=step):
            return f"saved checkpoint {step}"
        case EvaluationLoss(step=step, loss=loss):
            return f"evaluation after step {step}: loss {loss:.3f}"
        case DataEnded():
            return "the data ended"
        case _:
            return None


class _PlainProgress:
    """Plain lines: the first and last step always, others when a second has passed."""

    def __init__(self, *, steps: int, stream: TextIO, monotonic: Callable[[], float]) -> None:
        self._pace = _StepPace(steps=steps)
        self._stream = stream
        self._monotonic = monotonic
        self._said_at = float("-inf")
        self._waiting: Step | None = None

    def on_event(self, event: TrainerEvent) -> None:
        if isinstance(event, Step):
            self._step(event)
        elif text := immediate_line(event):
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
    from xsft.verbs.console import training_bar

    pace = _StepPace(steps=steps)
    with training_bar(stream) as display:
        task = display.add_task("starting the trainer", total=steps)

        def on_event(event: TrainerEvent) -> None:
            if isinstance(event, Step):
                pace.add(event)
                shown = step_text(event, steps=steps, eta_s=pace.eta_s)
                display.update(task, completed=event.step, description=shown)
            elif isinstance(event, PhaseStarted):
                display.update(task, description=event.name)
            elif isinstance(event, LoopFinished):
                display.update(task, description="saving the last checkpoint")
            elif line := immediate_line(event):
                display.console.print(line, markup=False, highlight=False)

        yield on_event


@contextmanager
def show_conversion(plan: ConversionPlan) -> Iterator[ConversionDisplay]:
    """Yield the display that takes the converter's events."""
    with show_progress("convert") as say:
        if plan.whole is None:
            unknown = "" if plan.estimate else "; its size is unknown: memory and disk are not checked"
            say(f"{plan.inputs.source.repo} for {plan.inputs.model}{unknown}")
        yield ConversionDisplay(say, every_s=0 if sys.stderr.isatty() else CONVERSION_EVERY_S)


@contextmanager
def reading_weights() -> Iterator[ConversionDisplay]:
    """Yield the display that takes the bytes read of a folder of weights."""
    with show_progress("convert") as say:
        yield ConversionDisplay(say, every_s=0.5 if sys.stderr.isatty() else CONVERSION_EVERY_S)


class ConversionDisplay:
    """Display of a conversion: each phase at once, numbers every `every_s` seconds."""

    def __init__(
        self, say: Callable[[str], None], *, every_s: float, now: Callable[[], float] = clock.monotonic
    ) -> None:
        self.say = say
        self._every_s, self._now = every_s, now
        self._paces: defaultdict[str, ConversionPace] = defaultdict(ConversionPace)
        self._next = now() + every_s

    def __call__(self, event: ConversionEvent | str) -> None:
        """Show an event, or what a printed line tells."""
        if isinstance(event, str):
            self.on_line(event)
        else:
            self.on_event(event)

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
                total = f" of about {size_text(of)}" if of else ""
                return f"{doing} {size_text(done)}{total}, {size_text(pace.rate)}/s{_time_left(pace)}"


def _time_left(pace: ConversionPace) -> str:
    return f", {clock_text(pace.left_s)} left" if pace.left_s is not None else ""
