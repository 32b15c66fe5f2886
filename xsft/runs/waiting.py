"""Read a run repeatedly until it reaches a goal; shared by `wait` and `submit --wait`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

from msgspec import Struct

from xsft.base.amounts import duration_text
from xsft.base.errors import RunFailed, TimedOut, Unknown, Unreachable, UsageError, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.base.state_names import ENDED, RUNNING
from xsft.machine import clock as system_clock
from xsft.machine.parallel import if_slow, start
from xsft.runs.lookup import RunsAnswer, missing_run, named, one_run, runs_unread, silent
from xsft.runs.rows import Row, is_worthless, state_line, zero_loss

WaitVerdict = Literal["reached", "ended", "waiting"]
"""`ended`: the run ended, or will end, without reaching its goal."""


class Goal(Struct, frozen=True, kw_only=True):
    kind: Literal["done", "running", "step"]
    step: int = 0
    """Only of kind `step`."""

    @property
    def text(self) -> str:
        return f"step={self.step}" if self.kind == "step" else self.kind


DONE = Goal(kind="done")


def parse_goal(text: str) -> Goal:
    """Return the goal. Raises ValueError with the allowed goals."""
    if text in ("done", "running"):
        return Goal(kind="done" if text == "done" else "running")
    if match := re.fullmatch(r"step=([1-9][0-9]{0,17})", text):
        return Goal(kind="step", step=int(match[1]))
    raise ValueError(f"{text!r} is not a valid goal: write done, running, or step=N with N from 1")


def verdict(goal: Goal, row: Row) -> WaitVerdict:
    """Return whether the run reached its goal. A succeeded run was running and did every requested step; a run whose
    steps train nothing never succeeds.
    """
    if _reached(goal, row):
        return "reached"
    return "ended" if row.state in ENDED or (goal.kind == "done" and is_worthless(row.reason)) else "waiting"


def beyond(goal: Goal, row: Row) -> bool:
    """Return whether the step is beyond the run's last one."""
    return goal.kind == "step" and row.steps is not None and goal.step > row.steps


def _reached(goal: Goal, row: Row) -> bool:
    match goal.kind:
        case "done":
            return row.state in ("succeeded", "serving")  # a server never ends by itself
        case "running":
            return row.state in RUNNING or row.state == "succeeded"
        case "step":
            done = row.steps if row.state == "succeeded" else row.step
            return done is not None and done >= goal.step


MISSES = 3
"""Complete answers in a row without the run until it counts as gone: one may fall between two objects."""

T = TypeVar("T")
LookAtRuns = Callable[[], RunsAnswer]
"""Function that reads the runs now. Raises Unreachable if nothing could be read."""
RecordWait = Callable[[Row], tuple[Problem, ...]]
"""Function that records beside the run how it ended; returns warnings if that cannot be written."""


WaitEnd = Literal["reached", "ended", "lost", "unreachable"]
"""Reasons other than the time limit to stop waiting."""


POLL_S = 3.0
"""Seconds between two reads: a named run costs a few small requests."""
GRACE_S = 0.5
"""Seconds left for a read in progress after the timeout; a timeout of 0 is one read."""
NO_ANSWER = Unreachable("No answer so far.", fix="Check the network and the login, or wait longer.")


class WaitLimits(Struct, frozen=True, kw_only=True):
    timeout_s: float | None
    """Maximum seconds to wait; None: no limit."""
    poll_s: float
    began_at: float | None = None
    """Start of the wait by the clock's `monotonic`; None: the first read."""


class Clock(Struct, frozen=True, kw_only=True):
    monotonic: Callable[[], float] = system_clock.monotonic
    pause: Callable[[float], None] = system_clock.pause


class WaitResult(Struct, frozen=True, kw_only=True):
    """The result of waiting."""

    outcome: Literal["reached", "ended", "timeout", "lost", "unreachable"]
    row: Row | None
    """The run as it was read last; None if it was never found."""
    seconds: float
    silence: XsftError | None = None
    """The error when nothing answered last."""
    problems: tuple[Problem, ...] = ()
    """Warnings about the result."""

    @property
    def goes_on(self) -> bool:
        """Return whether waiting ended while the run still runs."""
        return self.outcome == "ended" and self.row is not None and not self.row.ended


def note_result(waited: WaitResult, record: RecordWait) -> tuple[Problem, ...]:
    """Return warnings about the result; record how the run ended, or that it will not reach the goal."""
    if waited.row is None:
        return ()
    over = waited.outcome == "ended" or (waited.outcome == "reached" and waited.row.ended)
    return (*zero_loss(waited.row), *(record(waited.row) if over else ()))


def wait_for(
    name: str, *, goal: Goal, look: LookAtRuns, patience: WaitLimits, clock: Clock, say: ShowLine, known: bool = False
) -> WaitResult:
    """Wait for the goal. `known`: the run was created just now, so it exists.

    Raises UsageError if the run is not `known` and the first answer lacks it, or if it will never do that many steps.
    """
    watch = _RunWait(name=name, goal=goal, look=look, say=say, known=known)
    began = clock.monotonic() if patience.began_at is None else patience.began_at
    left_s = _seconds_to_wait(patience, clock.monotonic() - began)
    while True:
        ended = in_time(watch.look_again, left_s)
        passed = clock.monotonic() - began
        if ended is not None:
            return WaitResult(outcome=ended, row=watch.row, seconds=passed, silence=watch.silence)
        left_s = _seconds_to_wait(patience, passed)
        if left_s is not None and left_s <= 0:
            outcome: Literal["timeout", "unreachable"] = "timeout" if watch.row else "unreachable"
            return WaitResult(outcome=outcome, row=watch.row, seconds=passed, silence=watch.silence)
        in_time(partial(clock.pause, patience.poll_s if left_s is None else min(patience.poll_s, left_s)), left_s)
        left_s = _seconds_to_wait(patience, clock.monotonic() - began)


def in_time(act: Callable[[], T], left_s: float | None) -> T | None:
    """Return the result of `act`; None on a timeout. A call in DNS, TLS or a login program is then abandoned, because
    its own timeouts are longer."""
    if left_s is None:
        return act()
    started = start(act)
    return started.result() if started.ended(max(0.0, left_s) + GRACE_S) else None


def _seconds_to_wait(patience: WaitLimits, passed: float) -> float | None:
    return None if patience.timeout_s is None else patience.timeout_s - passed


class _RunWait(Struct, kw_only=True):
    name: str
    goal: Goal
    look: LookAtRuns
    say: ShowLine
    known: bool
    row: Row | None = None
    misses: int = 0
    silence: XsftError | None = None
    said: str = ""

    def look_again(self) -> WaitEnd | None:
        try:
            with if_slow(lambda: None if self.said else self._tell(f"waiting for an answer about {self.name}")):
                answer = self.look()
        except Unreachable as failed:
            return self._note_silence(failed)
        if not named(answer.rows, self.name):
            if not answer.whole:
                return self._note_silence(
                    runs_unread(answer.problems, f"{self.name} was not found on the clusters that answered")
                )
            if self.row is None and not self.known:
                raise missing_run(self.name, answer)
            return self._count_miss()
        hit = one_run(self.name, answer)
        if (why := silent(hit.seen)) and hit.row.state != "succeeded":  # a failed run may have been submitted again
            last_seen = (
                f" Last seen at {hit.row.observed_at}: {state_line(hit.row)}." if hit.row.state != "unknown" else ""
            )
            message = f"The cluster of {self.name} does not answer: {why.clause}.{last_seen}"
            return self._note_silence(Unreachable(message, fix=why.fix, id=why.id, again=why.again))
        return self._judge_row(hit.row)

    def _judge_row(self, row: Row) -> WaitEnd | None:
        self.silence = None
        first, self.row = self.row is None, row
        is_lost = row.state == "unknown" and not row.unread
        if first or not is_lost or self.misses:  # cancel deletes before it records: one such read is no proof
            self._tell(state_line(row))
        if first and beyond(self.goal, row):
            raise UsageError(
                f"{self.name} has {row.steps} steps and will never reach {self.goal.step}.",
                fix="Wait for an earlier step, or for done.",
            )
        judged = verdict(self.goal, row)
        if judged != "waiting":
            return judged
        if is_lost:
            return self._count_miss()
        self.misses = 0
        return None

    def _count_miss(self) -> Literal["lost"] | None:
        self.misses += 1
        return "lost" if self.misses >= MISSES else None

    def _note_silence(self, why: XsftError) -> Literal["unreachable"] | None:
        """Report that the run's state is unknown now, which does not count as gone; stop if the error is permanent."""
        self.silence = why
        if why.again == "never":
            return "unreachable"
        self._tell(f"{self.name}: {why.message} Still waiting.")
        return None

    def _tell(self, line: str) -> None:
        if line != self.said:
            self.said = line
            self.say(line)


def error_of(name: str, goal: Goal, waited: WaitResult) -> XsftError | None:
    """Return the error for the result of waiting; None if the goal was reached."""
    row, after = waited.row, duration_text(waited.seconds)
    last_state = state_line(row) if row else name
    match waited.outcome:
        case "reached":
            return None
        case "ended":
            still = f". It still runs: xsft cancel {name} ends it." if waited.goes_on else ""
            end = "will not reach" if waited.goes_on else "ended without reaching"
            return RunFailed(f"{last_state}: {end} {goal.text}.", fix=f"xsft why {name}{still}")
        case "lost":
            message = f"{name} ended or is gone, and its result is unknown. Last seen: {last_state}."
            return Unknown(message, fix=f"xsft why {name}; its output has the checkpoints.")
        case "unreachable":
            return _unreachable(name, waited)
        case "timeout" if row is not None and row.state == "unknown":
            return Unknown(
                f"Timed out after {after}; the state of {name} is unknown: {last_state}.", fix=f"xsft why {name}"
            )
        case "timeout":
            return TimedOut(f"Timed out after {after}; {goal.text} not reached: {last_state}.", fix=f"xsft why {name}")


def _unreachable(name: str, waited: WaitResult) -> Unreachable:
    why = waited.silence or NO_ANSWER
    if why.again != "never":
        message = f"Timed out after {duration_text(waited.seconds)}; the state of {name} is unknown. {why.message}"
        return Unreachable(message, fix=why.fix)
    last = f" Last seen: {state_line(waited.row)}." if waited.row else ""
    message = f"Waiting for {name} will not help: {why.message}{last}"
    return Unreachable(message, fix=why.fix, id=why.problem_id, again=why.again)


def row_of_waited(name: str, goal: Goal, waited: WaitResult) -> Row:
    """Return the run that reached the goal. Raises as `error_of` says."""
    if failed := error_of(name, goal, waited):
        raise failed
    if waited.row is None:
        raise Unknown(f"Run {name} was not found.")
    return waited.row
