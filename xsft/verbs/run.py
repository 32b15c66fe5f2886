"""`xsft run FILE`: do the stages of a workload in order, each once."""

from __future__ import annotations

import argparse

from xsft.base.errors import INTERRUPTED, UsageError
from xsft.base.stage import STAGES, Stage, StageFound
from xsft.planning import api
from xsft.stages.walk import PipelineRequest, StageReport, WalkResult, run_stages
from xsft.verbs.document import VerbDocument, asker, print_lines, report_document, request_of
from xsft.verbs.terminal import terminal


class RunDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.run/1"):
    """`xsft run FILE --json`."""

    stages: tuple[StageReport, ...]
    """Stages of the workload, in order."""


def run(args: argparse.Namespace) -> int:
    _refuse_stage_options(args)
    workload = api.load(args.file, settings=args.settings, run_name=args.run_name)
    request = request_of(args, PipelineRequest)

    def say(line: str) -> None:
        if not args.json:
            print_lines((line,))

    walked = run_stages(
        workload,
        request,
        ask=asker(yes=args.yes or args.json),
        listener=terminal(),
        begin=lambda stage, before: say(begin_line(stage, before)),
        tell=lambda report: say(report_line(report)),
    )
    return report_document(walk_document(walked), as_json=args.json, failed=walked.failed)


def _refuse_stage_options(args: argparse.Namespace) -> None:
    if STAGES.index(args.first) > STAGES.index(args.last):
        raise UsageError(f"--from {args.first} is after --to {args.last}.", fix=f"The order: {', '.join(STAGES)}.")
    if not args.waits and args.notify:
        raise UsageError("--notify posts an end, and --no-wait waits for none.", fix="Leave one of them out.")
    if not args.waits and args.timeout_s is not None:
        raise UsageError("--timeout limits a wait, and --no-wait disables it.", fix="Leave one of them out.")


def begin_line(stage: Stage, before: StageFound) -> str:
    return f"{stage.name:<9}{'begins':<9}{stage.run_name}: {before.why}"


def report_line(report: StageReport) -> str:
    line = f"{report.name:<9}{report.action:<9}{report.run_name}: {report.why}"
    if report.result:
        line += f"  {report.result}"
    return line


def walk_document(walked: WalkResult) -> RunDocument:
    return RunDocument(stages=walked.reports, exit_status=INTERRUPTED if walked.interrupted else 0)
