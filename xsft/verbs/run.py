"""`xsft run FILE`: do the stages of a workload in order, each once."""

from __future__ import annotations

import argparse

from xsft.base.errors import INTERRUPTED, UsageError
from xsft.base.stage import STAGES
from xsft.planning import api
from xsft.stages.run import PipelineRequest, run_stages
from xsft.stages.walk import StageReport, WalkResult
from xsft.verbs.document import (
    VerbDocument,
    asker,
    print_document,
    print_lines,
    problem_documents,
    request_of,
)
from xsft.verbs.terminal import terminal


class RunDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.run/1"):
    """`xsft run FILE --json`."""

    stages: tuple[StageReport, ...]
    """Stages of the workload, in order."""


def run(args: argparse.Namespace) -> int:
    _refuse_stage_options(args)
    workload = api.load(args.file, settings=args.settings, run_name=args.run_name)
    request = request_of(args, PipelineRequest)
    say = _say_nothing if args.json else _say
    walked = run_stages(
        workload,
        request,
        ask=asker(yes=args.yes or args.json),
        listener=terminal(),
        begin=lambda stage, found: say(f"{stage.name:<9}{'begins':<9}{stage.run_name}: {found.why}"),
        tell=lambda report: say(report_line(report)),
    )
    return _end_walk(walked, as_json=args.json)


def _refuse_stage_options(args: argparse.Namespace) -> None:
    if STAGES.index(args.first) > STAGES.index(args.last):
        raise UsageError(f"--from {args.first} is after --to {args.last}.", fix=f"The order: {', '.join(STAGES)}.")
    if not args.waits and args.timeout_s is not None:
        raise UsageError("--timeout limits a wait, and --no-wait disables it.", fix="Leave one of them out.")


def report_line(report: StageReport) -> str:
    line = f"{report.name:<9}{report.action:<9}{report.run_name}: {report.why}"
    if report.result:
        line += f"  {report.result}"
    return line


def _say(line: str) -> None:
    print_lines((line,))


def _say_nothing(_line: str) -> None:
    """With --json only the document is printed."""


def _end_walk(walked: WalkResult, *, as_json: bool) -> int:
    """Print the document and return the exit status. Raises the error that ended the walk, with the document."""
    document = walk_document(walked)
    if walked.failed:
        raise walked.failed.with_document(document)
    if as_json:
        print_document(document)
    return document.exit_status


def walk_document(walked: WalkResult) -> RunDocument:
    status = INTERRUPTED if walked.interrupted else 0
    if walked.failed is None:
        return RunDocument(stages=walked.reports, exit_status=status)
    problems = problem_documents(walked.failed.problems)
    return RunDocument(stages=walked.reports, problems=problems, exit_status=walked.failed.exit_status)
