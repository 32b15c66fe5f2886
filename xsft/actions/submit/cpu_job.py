"""The steps that all verbs share for a CPU job: follow it to its end, record that end, describe it in `--json`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO

from msgspec.structs import replace

from xsft import jobs
from xsft.actions.runs.waiting import Waited, WaitLimits
from xsft.actions.submit.cluster import DocumentOf, PrintedDocument, Wait, submit_cluster, waited_fields
from xsft.actions.submit.wait import After, after_plan
from xsft.effects.machine.streams import has_terminal
from xsft.effects.records.records import record_store
from xsft.effects.submit.job_end import record_job_end
from xsft.effects.submit.submission import Submission
from xsft.errors import XsftError
from xsft.launchers.cpujob import CpuJob
from xsft.problems import Problem
from xsft.screen.asking import confirm
from xsft.screen.documents import print_json, status_of
from xsft.screen.failure import print_problems
from xsft.steps import JobPlan, Planned


def submit_cpu_job(plan: JobPlan[CpuJob], args: argparse.Namespace, *, wait: Wait, document: DocumentOf) -> int:
    """Submit the job, and under `--wait` wait for its end. Raises as `submit_cluster`."""
    return submit_cluster(
        plan,
        connect=partial(jobs.submitter_for, plan),
        json=args.json,
        wait=wait if args.wait else None,
        ask=confirm if has_terminal() and not (args.yes or args.json) else None,
        document=document,
    )


def following(plan: JobPlan[CpuJob], args: argparse.Namespace, *, log: TextIO) -> After:
    """Return what waits for the job's end and writes its log lines to `log`."""
    return after_plan(plan, patience=WaitLimits(timeout_s=args.timeout, poll_s=args.poll), log=log, follow=True)


def cpu_job_of(done: Submission) -> CpuJob:
    assert isinstance(done.plan, JobPlan)
    assert isinstance(done.plan.job, CpuJob)
    return done.plan.job


def record_ended(done: Submission, waited: Waited) -> Waited:
    """Record how the job ended, if it has, by its result: no exit status is proof, and its JobSet is deleted some hours
    later. Return the wait, with the problems of that."""
    if waited.outcome not in ("reached", "ended"):
        return waited
    lacking = (waited.row and waited.row.reason) or "what it wrote is not complete"
    reason = None if jobs.is_made(cpu_job_of(done)) else lacking
    problems = record_job_end(
        record_store(),
        output=str(done.plan.run.output),
        run_name=done.plan.run_name,
        outcome="failed" if reason else "completed",
        reason=reason,
        uid=done.uid,
    )
    return replace(waited, problems=(*waited.problems, *problems))


def report_found(
    output: str, *, run_name: str, as_json: bool, document: Callable[[tuple[Problem, ...]], PrintedDocument], text: str
) -> int:
    """Report the result that exists, and complete its record if a job of a cluster made it; return 0."""
    noted = record_job_end(record_store(), output=output, run_name=run_name, outcome="completed")
    if as_json:
        print_json(*document(noted))
    else:
        print_problems(noted)
        sys.stdout.write(text)
    return 0


def report_plan(plan: JobPlan[CpuJob], *, as_json: bool, document: PrintedDocument, text: str) -> int:
    """Print the plan of a job, `document` with its manifest; return the exit status."""
    if as_json:
        kind, fields = document
        print_json(kind, {**fields, "job": {**_job_fields(plan, plan.job), "manifest": plan.manifest}})
    else:
        sys.stdout.write(text)
    return status_of(plan.problems)


def submitted_fields(done: Submission, waited: Waited | None, failed: XsftError | None) -> dict[str, Any]:
    """Return the document's fields about the job that was submitted."""
    job = {**_job_fields(done.plan, cpu_job_of(done)), "jobset": done.jobset, "uid": done.uid}
    return {"record": done.record, "job": job, **waited_fields(waited, failed)}


def _job_fields(plan: Planned, job: CpuJob) -> dict[str, Any]:
    run = plan.run
    return {
        "jobset": plan.jobset,
        "uid": None,
        "namespace": run.namespace,
        "queue": run.queue,
        "cpus": None if job.on_tpu else job.cpus,
        "memory_bytes": job.memory,
        "disk_bytes": job.disk,
        "machine": run.slice.machine_type if run.slice else job.machine.machine,
        "tpu": run.slice.xpk_type if run.slice else None,
        "chips": run.chips if job.on_tpu else 0,
        "xpk_argv": list(plan.xpk_argv) if plan.xpk_argv else None,
        "by_hand": list(plan.by_hand),
        "manifest": None,
    }
