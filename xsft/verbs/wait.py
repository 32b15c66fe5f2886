"""`xsft wait RUN`: wait until the run is done, runs, or has reached a step; the exit status is the result.
`xsft logs RUN`: show the log of the process that prints steps, or of the named processes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import Literal, TextIO

from msgspec import field
from msgspec.structs import replace

from xsft.base.amounts import duration_text
from xsft.base.reporting import Reporter
from xsft.cluster.sources import PlaceQuery
from xsft.machine import clock
from xsft.machine.signals import goes_on, when_interrupted
from xsft.machine.streams import with_controls
from xsft.runs.log_roles import LogRequest
from xsft.runs.log_sources import RunLogs
from xsft.runs.read_all import RunAccess, runs_for
from xsft.runs.rows import Row, state_line
from xsft.runs.run_logs import LogReader, end_text, found_lines
from xsft.runs.run_receipts import record_wait_end
from xsft.runs.waiting import (
    Clock,
    Goal,
    LookAtRuns,
    RecordWait,
    WaitLimits,
    WaitResult,
    error_of,
    in_time,
    note_result,
    wait_for,
)
from xsft.verbs.document import (
    VerbDocument,
    print_problems,
    print_to_stderr,
    problem_documents,
    report_document,
    request_of,
    show_spinner,
)
from xsft.verbs.runs_arguments import where_text


class WaitDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.wait/1"):
    """`xsft wait RUN --json`; also printed if the goal was not reached."""

    run_name: str
    for_: str = field(name="for")
    """Goal: done, running or step=N."""
    outcome: Literal["reached", "ended", "timeout", "lost", "unreachable"]
    """ended: it failed, was cancelled or ended before the goal · lost: its JobSet is gone and the result is unknown."""
    waited_s: float
    run: Row | None
    """The last state of the run that was read; null if no source answered."""


def run(args: argparse.Namespace) -> int:
    limits = request_of(args, WaitLimits, began_at=clock.monotonic())
    with when_interrupted(goes_on(args.run, where=where_text(args))):
        connect = partial(runs_for, request_of(args, PlaceQuery), names=(args.run,), everything=True)
        runs = in_time(connect, args.timeout_s)
        if runs is None:
            never = WaitResult(outcome="unreachable", row=None, seconds=args.timeout_s)
            return report_wait(args.run, goal=args.goal, waited=never, json=args.json)
        return wait_and_report(
            args.run,
            goal=args.goal,
            look=runs.look,
            patience=limits,
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

    Raises RunFailed, TimedOut, Unknown or Unreachable, with the document, if not.
    """
    waited = wait_for(name, goal=goal, look=look, patience=patience, clock=clock, say=print_to_stderr)
    return report_wait(name, goal=goal, waited=replace(waited, problems=note_result(waited, record)), json=json)


def report_wait(name: str, *, goal: Goal, waited: WaitResult, json: bool) -> int:
    """Report the result of waiting. Returns and raises as `wait_and_report`."""
    document = WaitDocument(
        run_name=waited.row.run_name if waited.row else name,
        for_=goal.text,
        outcome=waited.outcome,
        waited_s=round(waited.seconds, 1),
        run=waited.row,
        problems=problem_documents(waited.problems),
    )
    print_problems(waited.problems)
    return report_document(document, _run_lines, as_json=json, failed=error_of(name, goal, waited), shown=True)


def _run_lines(document: WaitDocument) -> Iterator[str]:
    if document.run:
        yield state_line(document.run)


def logs(args: argparse.Namespace) -> int:
    runs = runs_for(request_of(args, PlaceQuery), names=(args.run,), everything=True)
    request = log_request(args)
    reader = RunLogs(runs=runs, trouble=print_to_stderr)
    with when_interrupted(goes_on(args.run, where=where_text(args)) if args.follow else ""):
        stdout = with_controls(sys.stdout) if args.raw else sys.stdout
        return print_log(args.run, request=request, runs=runs, logs=reader, timestamps=args.timestamps, stdout=stdout)


def log_request(args: argparse.Namespace) -> LogRequest:
    return request_of(args, LogRequest, since_s=args.since)


def print_log(
    name: str, *, request: LogRequest, runs: RunAccess, logs: LogReader, timestamps: bool, stdout: TextIO
) -> int:
    """Print the log and return 0; if the run was followed to its end, also how it ended. Raises as `found_lines`."""
    listener = Reporter(waiting=show_spinner, say=print_to_stderr)
    log = found_lines(name, asked=request, runs=runs, logs=logs, timestamps=timestamps, listener=listener)
    line = None
    for line in log.lines:
        stdout.write(f"{line}\n")
        stdout.flush()  # for a reader of a pipe
    if line is None and log.names:
        sys.stderr.write(f"No log lines from {', '.join(log.names[:3])}{_why_nothing(request)}\n")
    text = end_text(log.seen, runs=runs) if request.follow else None
    if text is not None:
        print_to_stderr(text)
    return 0


def _why_nothing(request: LogRequest) -> str:
    """Return the reason for an empty log; one that was requested in part may have no lines in that part."""
    if request.tail == 0:
        return ": --tail 0 requests no lines"
    if request.since_s is not None:
        lately = duration_text(request.since_s)
        return f" in the last {lately}: it has printed nothing since, or its log was deleted with its pod"
    return ": it has not started, or its log was deleted with its pod"
