"""`xsft run FILE`: do the stages of a workload in order, each once."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from msgspec.structs import asdict

from xsft.base.errors import INTERRUPTED, UsageError, XsftError
from xsft.base.stage import STAGES
from xsft.planning import api
from xsft.stages.run import PipelineRequest, run_stages
from xsft.stages.walk import StageReport, WalkResult
from xsft.verbs.asking import asker
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.plan_document import print_json
from xsft.verbs.terminal import terminal


def run(args: argparse.Namespace) -> int:
    _refuse_stage_options(args)
    workload = api.load(args.file, settings=args.settings, run_name=args.run_name)
    request = PipelineRequest(
        first=args.first, last=args.last, waits=not args.no_wait, timeout_s=args.timeout, poll_s=args.poll
    )
    tell = (lambda _report: None) if args.json else _tell
    ask = asker(yes=args.yes or args.json)
    return _end_walk(run_stages(workload, request, ask=ask, listener=terminal(), tell=tell), as_json=args.json)


def _refuse_stage_options(args: argparse.Namespace) -> None:
    if STAGES.index(args.first) > STAGES.index(args.last):
        raise UsageError(f"--from {args.first} is after --to {args.last}.", fix=f"The order: {', '.join(STAGES)}.")
    if args.no_wait and args.timeout is not None:
        raise UsageError("--timeout limits a wait, and --no-wait disables it.", fix="Leave one of them out.")


def _tell(report: StageReport) -> None:
    """Print the line of one stage."""
    result = f"  {report.result}" if report.result else ""
    sys.stdout.write(f"{report.name:<9}{report.action:<9}{report.run_name}: {report.why}{result}\n")
    sys.stdout.flush()


def _end_walk(walked: WalkResult, *, as_json: bool) -> int:
    """Print the document and return the exit status. Without `as_json` an error is raised instead."""
    status = _walk_status(walked)
    if as_json:
        problems = walked.failed.problems if walked.failed else ()
        print_json("run", {**walk_document(walked), "problems": problem_documents(problems), "exit_status": status})
        print_problems(problems)
    elif walked.failed:
        raise walked.failed
    return status


def _walk_status(walked: WalkResult) -> int:
    failed: XsftError | None = walked.failed
    if failed is not None:
        return failed.exit_status
    return INTERRUPTED if walked.interrupted else 0


def walk_document(walked: WalkResult) -> dict[str, Any]:
    """Return the fields `stages` of `xsft.run/1`."""
    return {"stages": [asdict(report) for report in walked.reports]}
