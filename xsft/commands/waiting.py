"""Looking at a run again and again until it has come where it is waited for; shared by `wait` and `submit --wait`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from xsft.commands.durations import duration_text
from xsft.commands.status import Screen, look
from xsft.commands.status_watch import change
from xsft.errors import RunFailed, TimedOut, Unknown, Unreachable, UsageError, XsftError
from xsft.states.folding import named
from xsft.states.lookup import missing, one_run, silence, unread
from xsft.states.rows import Row
from xsft.states.waiting import Goal, beyond, verdict

MISSES = 3
"""A run that was there is gone when so many whole answers in a row lack it: one may be a moment between two objects."""

Say = Callable[[str], None]


class Patience(Struct, frozen=True, kw_only=True):
    timeout_s: float | None
    """None: for ever."""
    poll_s: float


class Clock(Struct, frozen=True, kw_only=True):
    monotonic: Callable[[], float]
    pause: Callable[[float], None]


class Waited(Struct, frozen=True, kw_only=True):
    """What waiting came to."""

    outcome: Literal["reached", "ended", "timeout", "lost", "unreachable"]
    row: Row | None
    """As it was seen last; None where it never was."""
    seconds: float
    silence: XsftError | None = None
    """What stood in the way when nothing answered last."""


def wait_and_report(name: str, *, goal: Goal, screen: Screen, patience: Patience, clock: Clock, json: bool) -> int:
    """0 where the run came there. Raises RunFailed, TimedOut, Unknown or Unreachable where not; under `json` the
    document is printed, and the exit status returned instead.
    """
    from xsft.commands.failure import print_problems

    waited = wait_for(name, goal=goal, screen=screen, patience=patience, clock=clock, say=told)
    failed = error_of(name, goal, waited)
    if json:
        _print_document(name, goal, waited, failed)
        print_problems(failed.problems if failed else ())
        return failed.exit_status if failed else 0
    if failed:
        raise failed
    if waited.row is not None:
        sys.stdout.write(f"{change(waited.row)}\n")
    return 0


def wait_for(
    name: str, *, goal: Goal, screen: Screen, patience: Patience, clock: Clock, say: Say, known: bool = False
) -> Waited:
    """`known`: it is there for sure, having been created just now. Raises UsageError where it is not, and the first
    answer has no such run, or one that will never do so many steps.
    """
    watch = _Watch(name=name, goal=goal, screen=screen, say=say, known=known)
    began = clock.monotonic()
    while True:
        ended = watch.look()
        passed = clock.monotonic() - began
        if ended is not None:
            return Waited(outcome=ended, row=watch.row, seconds=passed)
        left = None if patience.timeout_s is None else patience.timeout_s - passed
        if left is not None and left <= 0:
            outcome: Literal["timeout", "unreachable"] = "timeout" if watch.row else "unreachable"
            return Waited(outcome=outcome, row=watch.row, seconds=passed, silence=watch.silence)
        clock.pause(patience.poll_s if left is None else min(patience.poll_s, left))


class _Watch(Struct, kw_only=True):
    name: str
    goal: Goal
    screen: Screen
    say: Say
    known: bool
    row: Row | None = None
    misses: int = 0
    silence: XsftError | None = None
    said: str = ""

    def look(self) -> Literal["reached", "ended", "lost"] | None:
        try:
            found, rows = look(self.screen)
        except Unreachable as silent:
            self._silent(silent)
            return None
        if not named(rows, self.name):
            if not found.whole:
                self._silent(unread(found, f"{self.name} is not in what could be read"))
                return None
            if self.row is None and not self.known:
                raise missing(self.name, rows, found)
            return self._missed()
        hit = one_run(self.name, rows, found)
        if (why := silence(hit.seen)) and hit.row.state != "succeeded":  # what failed may have been submitted again
            self._silent(Unreachable(f"The cluster of {self.name} does not answer: {why}."))
            return None
        return self._seen(hit.row)

    def _seen(self, row: Row) -> Literal["reached", "ended", "lost"] | None:
        self.silence = None
        first, self.row = self.row is None, row
        lost = row.state == "unknown" and not row.unread
        if first or not lost or self.misses:  # a cancel deletes first and records then: one such look says nothing
            self._tell(change(row))
        if first and beyond(self.goal, row):
            raise UsageError(
                f"{self.name} does {row.steps} steps, never {self.goal.step}.", fix="Wait for fewer, or done."
            )
        found = verdict(self.goal, row)
        if found != "waiting":
            return found
        if lost:
            return self._missed()
        self.misses = 0
        return None

    def _missed(self) -> Literal["lost"] | None:
        self.misses += 1
        return "lost" if self.misses >= MISSES else None

    def _silent(self, why: XsftError) -> None:
        """Nothing is known of the run now: neither counts it as gone."""
        self.silence = why
        self._tell(f"{self.name}: {why.message} Waiting on.")

    def _tell(self, line: str) -> None:
        if line != self.said:
            self.said = line
            self.say(line)


def error_of(name: str, goal: Goal, waited: Waited) -> XsftError | None:
    """None where it came there."""
    row, after = waited.row, duration_text(waited.seconds)
    seen = f"{change(row)}" if row else name
    match waited.outcome:
        case "reached":
            return None
        case "ended":
            return RunFailed(f"{seen}: it will not come to {goal.text}.", fix=f"xsft why {name}")
        case "lost":
            message = f"{name} is over or gone, and nothing certain says how it ended. Last seen: {seen}."
            return Unknown(message, fix=f"xsft why {name}; its output has the checkpoints.")
        case "unreachable":
            why = waited.silence.message if waited.silence else ""
            message = f"{after} are up, and {name} was never seen. {why}"
            return Unreachable(message, fix=waited.silence.fix if waited.silence else "")
        case "timeout" if row is not None and row.state == "unknown":
            return Unknown(f"{after} are up, and what {name} does is not known: {seen}.", fix=f"xsft why {name}")
        case "timeout":
            return TimedOut(f"{after} are up, and it has not come to {goal.text}: {seen}.", fix=f"xsft why {name}")


def told(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _print_document(name: str, goal: Goal, waited: Waited, failed: XsftError | None) -> None:
    from xsft.commands.documents import print_json
    from xsft.commands.failure import problem_documents
    from xsft.commands.run_documents import run_document

    document: dict[str, Any] = {
        "run_name": waited.row.run_name if waited.row else name,
        "for": goal.text,
        "outcome": waited.outcome,
        "waited_s": round(waited.seconds, 1),
        "run": run_document(waited.row) if waited.row else None,
        "problems": problem_documents(failed.problems if failed else ()),
        "exit_status": failed.exit_status if failed else 0,
    }
    print_json("wait", document)
