"""`xsft wait RUN`: wait until the run is done, runs, or has reached a step; the exit status is the result."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from msgspec.structs import replace

from xsft.base.errors import XsftError
from xsft.machine import clock
from xsft.machine.interrupts import goes_on, when_interrupted
from xsft.runs.read_all import runs_of
from xsft.runs.rows import state_line
from xsft.runs.run_receipts import record_wait_end
from xsft.runs.wait_goals import Goal
from xsft.runs.waiting import (
    Clock,
    LookAtRuns,
    RecordWait,
    WaitLimits,
    WaitResult,
    error_of,
    in_time,
    note_result,
    wait_for,
)
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.plan_document import print_json, run_document
from xsft.verbs.progress import print_to_stderr
from xsft.verbs.runs_arguments import where_text


def run(args: argparse.Namespace) -> int:
    patience = WaitLimits(timeout_s=args.timeout, poll_s=args.poll, began_at=clock.monotonic())
    with when_interrupted(goes_on(args.run, where=where_text(args))):
        where = {"place": args.place, "context": args.context, "namespace": args.namespace}
        runs = in_time(partial(runs_of, (args.run,), **where), args.timeout)  # connects if a place or context is named
        if runs is None:
            never = WaitResult(outcome="unreachable", row=None, seconds=args.timeout)
            return report_wait(args.run, goal=args.goal, waited=never, json=args.json)
        return wait_and_report(
            args.run,
            goal=args.goal,
            look=runs.look,
            patience=patience,
            clock=Clock(),
            json=args.json,
            record=partial(record_wait_end, runs),
        )


def wait_and_report(
    name: str,
    *,
    goal: Goal,
    look: LookAtRuns,
    patience: WaitLimits,
    clock: Clock,
    json: bool,
    record: RecordWait = lambda _row: (),
) -> int:
    """Wait for the goal and return 0 if it was reached.

    Raises RunFailed, TimedOut, Unknown or Unreachable if not; under `json` the document is printed, and the exit status
    returned instead.
    """
    waited = wait_for(name, goal=goal, look=look, patience=patience, clock=clock, say=print_to_stderr)
    return report_wait(name, goal=goal, waited=replace(waited, problems=note_result(waited, record)), json=json)


def report_wait(name: str, *, goal: Goal, waited: WaitResult, json: bool) -> int:
    """Report the result of waiting, with the exit status and errors of `wait_and_report`."""
    failed = error_of(name, goal, waited)
    if json:
        _print_wait(name, goal, waited, failed)
        print_problems((*waited.problems, *(failed.problems if failed else ())))
        return failed.exit_status if failed else 0
    print_problems(waited.problems)
    if failed:
        raise failed
    if waited.row is not None:
        sys.stdout.write(f"{state_line(waited.row)}\n")
    return 0


def _print_wait(name: str, goal: Goal, waited: WaitResult, failed: XsftError | None) -> None:
    document: dict[str, Any] = {
        "run_name": waited.row.run_name if waited.row else name,
        "for": goal.text,
        "outcome": waited.outcome,
        "waited_s": round(waited.seconds, 1),
        "run": run_document(waited.row) if waited.row else None,
        "problems": problem_documents((*waited.problems, *(failed.problems if failed else ()))),
        "exit_status": failed.exit_status if failed else 0,
    }
    print_json("wait", document)
