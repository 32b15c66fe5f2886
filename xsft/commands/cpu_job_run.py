"""What the verbs do alike for a CPU job: follow it to its end, record that end, and describe the job in `--json`."""

from __future__ import annotations

import argparse
from typing import Any, TextIO

from xsft.commands.changes import changes_of
from xsft.commands.evidence_sources import evidence_of
from xsft.commands.log_sources import Logs
from xsft.commands.run_sources import runs_at
from xsft.commands.submit_wait import After
from xsft.commands.waiting import Waited, WaitLimits, told
from xsft.effects.records.records import record_store
from xsft.effects.submit.job_end import record_job_end
from xsft.effects.submit.submission import Submission
from xsft.problems import Problem
from xsft.steps import CpuPlan


def following(plan: CpuPlan, args: argparse.Namespace, *, log: TextIO) -> After:
    """Return what waits for the job's end and writes its log lines to `log`."""
    runs = runs_at(plan)
    query, here = changes_of(runs)
    return After(
        query=query,
        patience=WaitLimits(timeout_s=args.timeout, poll_s=args.poll),
        clock=here,
        say=told,
        lines=Logs(runs=runs, trouble=told).follow,
        log=log,
        gather=evidence_of(runs),
    )


def record_ended(done: Submission, waited: Waited, *, reason: str | None) -> tuple[Problem, ...]:
    """Record how the job ended, for its JobSet is deleted some hours later; return the problems of that. `reason`: why
    its result is not complete; None if it is. The cluster's own reason counts more."""
    return record_job_end(
        record_store(),
        output=str(done.plan.run.output),
        run_name=done.plan.run_name,
        outcome="failed" if reason else "completed",
        reason=reason and ((waited.row and waited.row.reason) or reason),
    )


def job_fields(plan: CpuPlan) -> dict[str, Any]:
    run, job = plan.run, plan.job
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
