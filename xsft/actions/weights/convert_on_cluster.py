"""The cluster side of `xsft checkpoint convert`: one CPU job, created once."""

from __future__ import annotations

import argparse
from functools import partial

from msgspec import to_builtins

from xsft import jobs
from xsft.actions.runs.waiting import Waited
from xsft.actions.submit.cluster import PrintedDocument, submission_problems
from xsft.actions.submit.cpu_job import (
    cpu_job_of,
    following,
    record_ended,
    report_found,
    report_plan,
    submit_cpu_job,
    submitted_fields,
)
from xsft.conversion.plan import ConversionPlan
from xsft.conversion.progress import BytesDone
from xsft.effects.facts.growth import growing
from xsft.effects.machine import clock
from xsft.effects.records.records import record_store
from xsft.effects.submit.claims import ConversionClaim, read_claim, take_claim, under_claim
from xsft.effects.submit.interrupts import NOTHING_CREATED, when_interrupted
from xsft.effects.submit.submission import Action, Submission
from xsft.errors import XsftError
from xsft.launchers.cpujob import CpuJob
from xsft.problems import Problem
from xsft.screen.checkpoint_documents import CONVERT, conversion_fields
from xsft.screen.convert_progress import EVERY_S, ConversionDisplay, ConverterLog
from xsft.screen.cpu_plan_text import conversion_text
from xsft.screen.progress import print_to_stderr, shown
from xsft.spec.resolve import Run
from xsft.steps import JobPlan


def convert_cluster(
    made: ConversionPlan, run: Run, *, file: str, problems: tuple[Problem, ...], args: argparse.Namespace
) -> int:
    """Report the finished checkpoint, else plan the job, and submit it unless it is a dry run.

    Raises as `jobs.plan_conversion` and `submit_cluster` do.
    """
    store = record_store()
    claim = read_claim(store, made)
    made = under_claim(made, claim)
    if made.whole:
        return _report_found_checkpoint(made, as_json=args.json)
    with when_interrupted(NOTHING_CREATED), shown("xsft") as progress:
        on_tpu: bool = args.on_tpu
        plan_of = partial(jobs.plan_conversion, run=run, file=file, problems=problems, progress=progress, on_tpu=on_tpu)
        plan = plan_of(made)
        if args.dry_run:
            return _dry_run(plan, made, claim, as_json=args.json)
        claim = take_claim(store, made)
        if claim.run_name != made.run_name:  # another caller submitted it after the plan was made
            made = under_claim(made, claim)
            plan = plan_of(made)
    if claim.training != run.run_name:
        begun = f"begun for {claim.training} by {claim.user or 'unknown'} at {claim.at or 'unknown'}"
        print_to_stderr(
            f"{claim.run_name}, {begun}, is the conversion of these weights into this output: this call joins it"
        )
    return submit_cpu_job(
        plan,
        args,
        wait=partial(_wait_for_conversion, plan, made, args),
        document=partial(_convert_document, made, claim),
    )


def _report_found_checkpoint(made: ConversionPlan, *, as_json: bool) -> int:
    def document(noted: tuple[Problem, ...]) -> PrintedDocument:
        why, checkpoint = "it already exists", made.whole
        return CONVERT, conversion_fields(made, action="finished", why=why, checkpoint=checkpoint, problems=noted)

    text = f"{made.inputs.source.repo} for {made.inputs.model}: found; nothing was sent\ncheckpoint  {made.whole}\n"
    return report_found(made.output, run_name=made.run_name, as_json=as_json, document=document, text=text)


def _dry_run(plan: JobPlan[CpuJob], made: ConversionPlan, claim: ConversionClaim | None, *, as_json: bool) -> int:
    fields = conversion_fields(
        made, action="planned", why=_why_converting(made), checkpoint=plan.job.writes, problems=plan.problems
    )
    document = (CONVERT, {**fields, "owner": to_builtins(claim)})
    return report_plan(plan, as_json=as_json, document=document, text=conversion_text(plan, made))


def _wait_for_conversion(
    plan: JobPlan[CpuJob], made: ConversionPlan, args: argparse.Namespace, done: Submission
) -> Waited:
    """Wait for the job, show its progress, and record its end: the JobSet is deleted some hours later."""
    display = ConversionDisplay(print_to_stderr, every_s=EVERY_S)
    after = following(plan, args, log=ConverterLog(display))
    whole = made.estimate.output if made.estimate else None

    def on_size(size: int) -> None:
        display.on_event(BytesDone(done=size, of=whole, at=clock.monotonic()))

    with growing(cpu_job_of(done).writes.removesuffix("/0/items"), on_size=on_size):
        return record_ended(done, after.wait(done))


def _why_converting(made: ConversionPlan, action: Action | None = None) -> str:
    if action == "adopted":
        return f"{made.run_name} is converting the same weights"
    if made.broken:
        return f"{', '.join(made.broken)} is incomplete and is kept"
    return "these weights were not converted with these flags before"


def _convert_document(
    made: ConversionPlan, claim: ConversionClaim, done: Submission, waited: Waited | None, failed: XsftError | None
) -> PrintedDocument:
    fields = conversion_fields(
        made,
        action=done.action,
        why=_why_converting(made, done.action),
        checkpoint=cpu_job_of(done).writes,
        problems=submission_problems(done, waited, failed),
    )
    return CONVERT, {**fields, "owner": to_builtins(claim), **submitted_fields(done, waited, failed)}
