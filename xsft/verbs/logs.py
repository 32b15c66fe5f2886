"""`xsft logs RUN`: show the log of the process that prints steps, or of the named processes."""

from __future__ import annotations

import argparse
import sys
from typing import TextIO

from xsft.base.amounts import duration_text
from xsft.base.reporting import Reporter
from xsft.cluster.sources import PlaceQuery
from xsft.machine.signals import goes_on, when_interrupted
from xsft.machine.streams import with_controls
from xsft.runs.log_roles import LogRequest
from xsft.runs.log_sources import RunLogs
from xsft.runs.read_all import RunAccess, runs_for
from xsft.runs.run_logs import LogReader, end_text, found_lines
from xsft.verbs.document import print_to_stderr, request_of, show_spinner
from xsft.verbs.runs_arguments import where_text

LISTENER = Reporter(waiting=show_spinner, say=print_to_stderr)


def run(args: argparse.Namespace) -> int:
    runs = runs_for(request_of(args, PlaceQuery), names=(args.run,), everything=True)
    request = log_request(args)
    logs = RunLogs(runs=runs, trouble=print_to_stderr)
    with when_interrupted(goes_on(args.run, where=where_text(args)) if args.follow else ""):
        stdout = with_controls(sys.stdout) if args.raw else sys.stdout
        return print_log(args.run, asked=request, runs=runs, logs=logs, timestamps=args.timestamps, stdout=stdout)


def log_request(args: argparse.Namespace) -> LogRequest:
    return request_of(args, LogRequest, since_s=args.since)


def print_log(
    name: str, *, asked: LogRequest, runs: RunAccess, logs: LogReader, timestamps: bool, stdout: TextIO
) -> int:
    """Print the log and return 0; if the run was followed to its end, also how it ended. Raises as `found_lines`."""
    found = found_lines(name, asked=asked, runs=runs, logs=logs, timestamps=timestamps, listener=LISTENER)
    line = None
    for line in found.lines:
        stdout.write(f"{line}\n")
        stdout.flush()  # for a reader of a pipe
    if line is None and found.names:
        sys.stderr.write(f"No log lines from {', '.join(found.names[:3])}{_why_nothing(asked)}\n")
    text = end_text(found.seen, runs=runs) if asked.follow else None
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
