"""The options with which a CPU job is requested, read from the command line."""

from __future__ import annotations

import argparse

from xsft.base.errors import UsageError
from xsft.runs.waiting import WaitLimits
from xsft.stages.cpu_job import CpuJobRequest
from xsft.verbs.asking import asker


def cpu_job_request(args: argparse.Namespace) -> CpuJobRequest:
    return CpuJobRequest(
        dry_run=args.dry_run,
        waits=args.wait,
        limits=WaitLimits(timeout_s=args.timeout, poll_s=args.poll),
        ask=asker(yes=args.yes or args.json),
    )


def refuse_timeout_alone(args: argparse.Namespace) -> None:
    """Raise UsageError for --timeout without --wait."""
    if args.timeout is not None and not args.wait:
        raise UsageError("--timeout needs --wait.", fix="Add --wait, or omit --timeout.")
