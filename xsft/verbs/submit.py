"""`xsft submit FILE`: execute the plan that `xsft plan FILE` prints, on its cluster or on this machine.
`xsft run FILE`: do the stages of a workload in order, each once."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TextIO

from xsft.base.errors import INTERRUPTED, RunFailed, UsageError
from xsft.base.lenient import ShowLine
from xsft.base.reporting import AskUser
from xsft.base.stage import STAGES
from xsft.environments import environments
from xsft.launch.fit_search import UNASKED_TIMEOUT_S, compile_first, wants_compiler
from xsft.launch.local_machine import Machine
from xsft.launch.local_run import LocalResult, failure, next_step, train_here
from xsft.launch.submit import submit_cluster, submitter_for
from xsft.launch.wait_for_end import after_plan
from xsft.machine.signals import NOTHING_CREATED, when_interrupted
from xsft.planning import api
from xsft.planning.steps import Plan
from xsft.runs.waiting import WaitLimits
from xsft.stages.walk import PipelineRequest, StageReport, WalkResult, run_stages
from xsft.verbs.document import (
    VerbDocument,
    asker,
    print_lines,
    print_problems,
    print_to_stderr,
    problem_documents,
    refuse_options,
    report_document,
    request_of,
    show_progress,
)
from xsft.verbs.submission import Result, SubmitDocument, report_submission, show_result, submission_document
from xsft.verbs.terminal import terminal


class RunDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.run/1"):
    """`xsft run FILE --json`."""

    stages: tuple[StageReport, ...]
    """Stages of the workload, in order."""


def run(args: argparse.Namespace) -> int:
    if not (args.wait or args.follow):
        why = "needs --wait or --follow"
        refuse_options({"--timeout": args.timeout_s is not None, "--notify": args.notify}, why)
    loaded = api.load(args.file, settings=args.settings, run_name=args.run_name)
    plan = _plan(loaded)
    ask = asker(yes=args.yes or args.json)
    if not args.no_fit and environments.find_environment("compiler") and wants_compiler(plan, ask=ask):
        _compile(plan, timeout_s=None if ask else UNASKED_TIMEOUT_S)
        plan = _plan(loaded)
    accepted = api.accepted_problems(plan)
    if plan.on_this_machine:
        print_problems(p for p in accepted if p.severity == "warning")
        if args.through_xpk:
            raise UsageError("--through-xpk: the workload runs on this machine.", fix="Omit it.")
        return submit_local(plan, json=args.json)
    return _submit_to_cluster(loaded, plan, args, ask=ask)


def _plan(loaded: api.LoadedWorkload) -> Plan:
    with when_interrupted(NOTHING_CREATED), show_progress("xsft") as progress:
        return api.plan((loaded,), progress=progress)[0]


def _compile(plan: Plan, *, timeout_s: float | None) -> None:
    with when_interrupted(NOTHING_CREATED), show_progress("fit") as progress:
        compile_first(plan, timeout_s=timeout_s, say=progress)


def _submit_to_cluster(loaded: api.LoadedWorkload, plan: Plan, args: argparse.Namespace, *, ask: AskUser | None) -> int:
    listener = terminal(as_json=args.json)
    log: ShowLine | None = None
    if args.follow:
        log = print_to_stderr if args.json else partial(print, flush=True)
    after = after_plan(plan, patience=request_of(args, WaitLimits), log=log, listener=listener)
    end = submit_cluster(
        plan,
        connect=partial(submitter_for, loaded, plan, through_xpk=args.through_xpk),
        listener=listener,
        ask=ask,
        again=args.again,
        wait=after.wait if args.wait or args.follow else None,
    )
    return report_submission(end, submission_document(end), as_json=args.json)


def submit_local(plan: Plan, *, json: bool, machine: Machine | None = None, stderr: TextIO | None = None) -> int:
    """Run the plan to its end; return 0, or 130 if the user interrupted it. `json`: print one document on stdout.

    Raises RunFailed if it failed or ended short, Refused and EnvironmentMissing as `run_local` does.
    """
    messages = stderr or sys.stderr
    result, picture = train_here(plan, machine=machine, listener=terminal(messages))
    show_result(plan, result, picture, stream=messages if json or result.outcome != "completed" else sys.stdout)
    match result.outcome:
        case "completed":
            return report_document(local_document(plan, result, picture=picture), as_json=json, shown=True)
        case "interrupted":
            return INTERRUPTED
        case _:
            raise RunFailed(failure(result), fix=next_step(result))


def local_document(plan: Plan, result: LocalResult, *, picture: Path | None) -> SubmitDocument:
    """Return the document of a training on this machine."""
    return SubmitDocument(
        run_name=plan.run_name,
        jobset=None,
        action=result.action,
        uid=None,
        spec_digest=plan.spec_digest,
        record=str(result.record),
        result=Result(steps=result.steps, first_loss=result.first_loss, last_loss=result.last_loss),
        resumed_from=result.resumed_from,
        resumed_order=result.resumed_order,
        checkpoints=tuple(map(str, result.checkpoints)),
        log=str(result.log) if result.log else None,
        plot=str(picture) if picture else None,
        private_pids=result.private_pids,
        problems=problem_documents(result.warnings),
    )


def run_all_stages(args: argparse.Namespace) -> int:
    if STAGES.index(args.first) > STAGES.index(args.last):
        raise UsageError(f"--from {args.first} is after --to {args.last}.", fix=f"The order: {', '.join(STAGES)}.")
    if not args.waits and args.notify:
        raise UsageError("--notify posts an end, and --no-wait waits for none.", fix="Leave one of them out.")
    if not args.waits and args.timeout_s is not None:
        raise UsageError("--timeout limits a wait, and --no-wait disables it.", fix="Leave one of them out.")
    workload = api.load(args.file, settings=args.settings, run_name=args.run_name)

    def say(line: str) -> None:
        if not args.json:
            print_lines((line,))

    walked = run_stages(
        workload,
        request_of(args, PipelineRequest),
        ask=asker(yes=args.yes or args.json),
        listener=terminal(),
        begin=lambda stage, before: say(f"{stage.name:<9}{'begins':<9}{stage.run_name}: {before.why}"),
        tell=lambda report: say(_report_line(report)),
    )
    return report_document(walk_document(walked), as_json=args.json, failed=walked.failed)


def _report_line(report: StageReport) -> str:
    line = f"{report.name:<9}{report.action:<9}{report.run_name}: {report.why}"
    if report.result:
        line += f"  {report.result}"
    return line


def walk_document(walked: WalkResult) -> RunDocument:
    return RunDocument(stages=walked.reports, exit_status=INTERRUPTED if walked.interrupted else 0)
