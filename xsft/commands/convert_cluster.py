"""The cluster side of `xsft checkpoint convert`: one CPU job, created once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from xsft import cpu_jobs
from xsft.commands.asking import at_terminal, confirm
from xsft.commands.convert_document import KIND, conversion_fields
from xsft.commands.convert_progress import EVERY_S, ConversionDisplay, ConverterLog
from xsft.commands.cpu_job_run import following, job_fields, record_ended
from xsft.commands.cpu_plan_text import conversion_text
from xsft.commands.documents import print_json, status_of
from xsft.commands.failure import print_problems
from xsft.commands.progress import shown
from xsft.commands.run_documents import run_document
from xsft.commands.submit_cluster import submit_cluster
from xsft.commands.waiting import Waited, told
from xsft.conversion.plan import ConversionPlan
from xsft.conversion.progress import BytesDone
from xsft.effects.facts.checkpoint import read_checkpoint
from xsft.effects.facts.growth import growing
from xsft.effects.machine import clock
from xsft.effects.records.records import record_store
from xsft.effects.submit.claims import ConversionClaim, read_claim, take_claim, under_claim
from xsft.effects.submit.interrupts import NOTHING_CREATED, when_interrupted
from xsft.effects.submit.job_end import record_job_end
from xsft.effects.submit.submission import Action, Submission
from xsft.errors import XsftError
from xsft.launchers.cpujob import CpuJob
from xsft.problems import Problem
from xsft.spec.resolve import Run
from xsft.steps import CpuPlan


def convert_cluster(
    made: ConversionPlan, run: Run, *, file: str, problems: tuple[Problem, ...], args: argparse.Namespace
) -> int:
    """Report the finished checkpoint, else plan the job, and submit it unless it is a dry run.

    Raises as `cpu_jobs.plan_conversion` and `submit_cluster` do.
    """
    store = record_store()
    claim = read_claim(store, made)
    made = under_claim(made, claim)
    if made.whole:
        return _found(made, as_json=args.json)
    with when_interrupted(NOTHING_CREATED), shown("xsft") as progress:
        on_tpu: bool = args.on_tpu
        plan_of = partial(
            cpu_jobs.plan_conversion, run=run, file=file, problems=problems, progress=progress, on_tpu=on_tpu
        )
        plan = plan_of(made)
        if args.dry_run:
            return _dry_run(plan, made, claim, as_json=args.json)
        claim = take_claim(store, made)
        if claim.run_name != made.run_name:  # another caller submitted it after the plan was made
            made = under_claim(made, claim)
            plan = plan_of(made)
    _tell_whose(claim, own=run.run_name)
    warnings = tuple(p for p in plan.problems if p.severity == "warning")
    return submit_cluster(
        plan,
        connect=partial(cpu_jobs.submitter_for, plan),
        json=args.json,
        wait=partial(_wait, plan, made, args) if args.wait else None,
        warnings=warnings,
        ask=confirm if at_terminal() and not (args.yes or args.json) else None,
        document=partial(_document, made, claim),
    )


def _tell_whose(claim: ConversionClaim, *, own: str) -> None:
    if claim.training != own:
        sys.stderr.write(f"{_whose(claim)} is the conversion of these weights into this output: this call joins it\n")


def _whose(claim: ConversionClaim) -> str:
    return f"{claim.run_name}, begun for {claim.training} by {claim.user or 'unknown'} at {claim.at or 'unknown'},"


def _found(made: ConversionPlan, *, as_json: bool) -> int:
    """Report the checkpoint that exists; complete its record if a job of a cluster made it."""
    noted = record_job_end(record_store(), output=made.output, run_name=made.run_name, outcome="completed")
    if as_json:
        fields = conversion_fields(made, action="finished", why="it was there", checkpoint=made.whole, problems=noted)
        print_json(KIND, {**fields, "job": None})
    else:
        print_problems(noted)
        sys.stdout.writelines(f"{line}\n" for line in _found_text(made))
    return 0


def _found_text(made: ConversionPlan) -> Iterator[str]:
    yield f"{made.inputs.source.repo} for {made.inputs.model}: found; nothing was sent"
    yield f"checkpoint  {made.whole}"


def _dry_run(plan: CpuPlan, made: ConversionPlan, claim: ConversionClaim | None, *, as_json: bool) -> int:
    if as_json:
        fields = conversion_fields(
            made, action="planned", why=_why(made), checkpoint=plan.job.writes, problems=plan.problems
        )
        print_json(KIND, {**fields, **_owner(claim), "job": {**job_fields(plan), "manifest": plan.manifest}})
    else:
        sys.stdout.write(conversion_text(plan, made))
    return status_of(plan.problems)


def _wait(plan: CpuPlan, made: ConversionPlan, args: argparse.Namespace, done: Submission) -> Waited:
    """Wait for the job, show its progress, and record its end: the JobSet is deleted some hours later."""
    display = ConversionDisplay(told, every_s=EVERY_S)
    after = following(plan, args, log=ConverterLog(display))
    whole = made.estimate.output if made.estimate else None

    def on_size(size: int) -> None:
        display.on_event(BytesDone(done=size, of=whole, at=clock.monotonic()))

    with growing(_job_of(done).writes.removesuffix("/0/items"), on_size=on_size):
        waited = after.wait(done)
    if waited.outcome in ("reached", "ended"):
        return replace(waited, problems=(*waited.problems, *_ended(done, waited)))
    return waited


def _job_of(done: Submission) -> CpuJob:
    assert isinstance(done.plan, CpuPlan)
    return done.plan.job


def _ended(done: Submission, waited: Waited) -> tuple[Problem, ...]:
    """Return the problems of the ended job, by the checkpoint in its output: no exit status is proof."""
    whole = read_checkpoint(_job_of(done).writes).status == "read"
    return record_ended(done, waited, reason=None if whole else "the checkpoint it wrote is not complete")


def _owner(claim: ConversionClaim | None) -> dict[str, Any]:
    return {"owner": to_builtins(claim) if claim else None}


def _why(made: ConversionPlan, action: Action | None = None) -> str:
    if action == "adopted":
        return f"{made.run_name} converts the same weights now"
    if made.broken:
        return f"{', '.join(made.broken)} is not complete; it stays"
    return "these weights were not converted with these flags before"


def _document(
    made: ConversionPlan, claim: ConversionClaim, done: Submission, waited: Waited | None, failed: XsftError | None
) -> tuple[str, dict[str, Any]]:
    plan = done.plan
    assert isinstance(plan, CpuPlan)
    problems = (*done.problems, *(waited.problems if waited else ()), *(failed.problems if failed else ()))
    why = _why(made, done.action)
    fields = conversion_fields(made, action=done.action, why=why, checkpoint=plan.job.writes, problems=problems)
    fields |= _owner(claim)
    fields |= {"record": done.record, "job": {**job_fields(plan), "jobset": done.jobset, "uid": done.uid}}
    if waited:
        row = waited.row
        fields |= {"run": run_document(row) if row else None, "exit_status": failed.exit_status if failed else 0}
    return KIND, fields
