"""`xsft wait RUN`: wait until the run is done, runs, or has reached a step; the exit status is the result."""

from __future__ import annotations

import argparse
from functools import partial

from xsft.actions.runs.changes import changes_of
from xsft.actions.runs.receipts import record_wait_end
from xsft.actions.runs.selection import runs_of
from xsft.actions.runs.waiting import Waited, WaitLimits, in_time, report_wait, wait_and_report
from xsft.commands.arguments.runs import where_text
from xsft.effects.machine import clock
from xsft.effects.submit.interrupts import goes_on, when_interrupted


def run(args: argparse.Namespace) -> int:
    patience = WaitLimits(timeout_s=args.timeout, poll_s=args.poll, began_at=clock.monotonic())
    with when_interrupted(goes_on(args.run, where=where_text(args))):
        runs = in_time(partial(runs_of, args, args.run), args.timeout)  # connects if a place or context is named
        if runs is None:
            never = Waited(outcome="unreachable", row=None, seconds=args.timeout)
            return report_wait(args.run, goal=args.goal, waited=never, json=args.json)
        query, clock_of_run = changes_of(runs)
        return wait_and_report(
            args.run,
            goal=args.goal,
            query=query,
            patience=patience,
            clock=clock_of_run,
            json=args.json,
            record=partial(record_wait_end, runs),
        )
