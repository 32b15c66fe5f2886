"""`xsft run FILE`: do the stages of a workload in order, each once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict

from xsft import api
from xsft.actions.pipeline.cluster import ClusterCall
from xsft.actions.pipeline.stages import stages_of
from xsft.effects.machine import clock
from xsft.effects.machine.signals import interrupted_after
from xsft.errors import INTERRUPTED, TimedOut, UsageError, XsftError
from xsft.screen.asking import asker
from xsft.screen.documents import print_json
from xsft.screen.failure import print_problems, problem_documents
from xsft.screen.progress import shown
from xsft.screen.terminal import terminal
from xsft.spec.amounts import duration_text
from xsft.stages.stage import STAGES, Stage
from xsft.stages.walk import StageReport, Walk, Walked, walk


def run(args: argparse.Namespace) -> int:
    _refuse_stage_options(args)
    workload = api.load(args.file, settings=args.settings, run_name=args.run_name)
    stages = _stages_to_run(workload, args)
    began = clock.monotonic()

    def left_s() -> float | None:
        return None if args.timeout is None else max(0.0, args.timeout - (clock.monotonic() - began))

    tell = (lambda _report: None) if args.json else _tell
    try:
        with interrupted_after(args.timeout if workload.spec.on_this_machine else None):
            walked = _walked(stages, args, tell=tell, left_s=left_s)
    except KeyboardInterrupt:
        if left_s() != 0:
            raise
        raise _timed_out(args) from None
    if walked.interrupted and left_s() == 0:
        raise _timed_out(args)
    return _end_walk(walked, as_json=args.json)


def _refuse_stage_options(args: argparse.Namespace) -> None:
    if STAGES.index(args.first) > STAGES.index(args.last):
        raise UsageError(f"--from {args.first} is after --to {args.last}.", fix=f"The order: {', '.join(STAGES)}.")
    if args.no_wait and args.timeout is not None:
        raise UsageError("--timeout limits a wait, and --no-wait disables it.", fix="Leave one of them out.")


def _stages_to_run(workload: api.Loaded, args: argparse.Namespace) -> tuple[Stage, ...]:
    """Return the stages. Raises SpecError for errors of the whole workload, before the first stage begins."""
    (intent,) = api.intend((workload,))
    api.admitted(tuple(p.in_file(workload.file) for p in intent.problems if p.kind != "unmade"))
    if args.no_wait and workload.spec.on_this_machine:
        raise UsageError(
            "--no-wait: on this machine the stages run in this process, and would end with it.",
            fix="Leave it out; `nohup xsft run FILE &` continues without the terminal.",
        )
    call = ClusterCall(ask=asker(yes=args.yes or args.json), poll_s=args.poll, listener=terminal())
    stages = stages_of(workload, run_name=intent.run.run_name, call=call, known=intent)
    _refuse_unplanned(stages, args)
    return stages


def _refuse_unplanned(stages: tuple[Stage, ...], args: argparse.Namespace) -> None:
    """Raise the error of the first requested stage after the training that cannot be planned. Raises UsageError if the
    workload has none of the requested stages.
    """
    requested = STAGES[STAGES.index(args.first) : STAGES.index(args.last) + 1]
    names = [stage.name for stage in stages]
    if not set(names) & set(requested):
        raise UsageError(
            f"{args.file} has no stage from {args.first} to {args.last}; it has {', '.join(names)}.",
            fix="Name one of these, or add the stage under `stages:` of the workload.",
        )
    for stage in stages:
        if stage.name in requested and stage.name not in ("convert", "train"):
            stage.plan()


def _walked(
    stages: tuple[Stage, ...],
    args: argparse.Namespace,
    *,
    tell: Callable[[StageReport], None],
    left_s: Callable[[], float | None],
) -> Walked:
    with shown("run") as progress:
        walk_settings = Walk(
            left_s=left_s,
            progress=progress,
            tell=tell,
            warn=lambda end: print_problems(end.warnings),
            first=args.first,
            last=args.last,
            waits=not args.no_wait,
        )
        return walk(stages, walk_settings)


def _timed_out(args: argparse.Namespace) -> TimedOut:
    return TimedOut(
        f"Timed out after {duration_text(args.timeout)}: the stage was stopped.",
        fix=f"What was saved stays; the same command continues: xsft run {args.file}",
    )


def _tell(report: StageReport) -> None:
    """Print the line of one stage."""
    result = f"  {report.result}" if report.result else ""
    sys.stdout.write(f"{report.name:<9}{report.action:<9}{report.run_name}: {report.why}{result}\n")
    sys.stdout.flush()


def _end_walk(walked: Walked, *, as_json: bool) -> int:
    """Print the document and return the exit status. Without `as_json` an error is raised instead."""
    status = _walk_status(walked)
    if as_json:
        problems = walked.failed.problems if walked.failed else ()
        print_json("run", {**walk_document(walked), "problems": problem_documents(problems), "exit_status": status})
        print_problems(problems)
    elif walked.failed:
        raise walked.failed
    return status


def _walk_status(walked: Walked) -> int:
    failed: XsftError | None = walked.failed
    if failed is not None:
        return failed.exit_status
    return INTERRUPTED if walked.interrupted else 0


def walk_document(walked: Walked) -> dict[str, Any]:
    """Return the fields `stages` of `xsft.run/1`."""
    return {"stages": [asdict(report) for report in walked.reports]}
