"""The plan of a CPU job as text for people. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from xsft.base.names import StageWork
from xsft.catalog.cpu import GIB
from xsft.launcher.cpujob import CpuJob
from xsft.planning.steps import JobPlan
from xsft.verbs.plan_summary import cluster_text, ready_text, secrets_text
from xsft.verbs.plan_text import audit_lines, block, problems_block, shell_line
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.export_plan import ExportPlan

TITLES: Mapping[StageWork, str] = {"convert": "conversion", "evaluate": "evaluation", "export": "export"}


def conversion_text(plan: JobPlan[CpuJob], made: ConversionPlan) -> str:
    """Return the plan of a conversion's job as text."""
    return "\n".join(_plan_lines(plan, _conversion_rows(plan, made))) + "\n"


def export_text(plan: JobPlan[CpuJob], made: ExportPlan) -> str:
    """Return the plan of an export's job as text."""
    return "\n".join(_plan_lines(plan, _export(plan, made))) + "\n"


def _plan_lines(plan: JobPlan[CpuJob], summary: Iterator[tuple[str, str]]) -> Iterator[str]:
    yield f"# {plan.file}"
    for label, text in summary:
        yield f"{label:<12}{text}"
    if plan.xpk_argv:
        yield from block("xpk", shell_line(plan.xpk_argv))
    yield from block(TITLES[plan.job.work], shell_line(plan.job.argv))
    yield from block("its environment", "\n".join(f"{k}={shlex.quote(v)}" for k, v in plan.job.env.items()))
    if plan.by_hand:
        yield from block("if you run this xpk line by hand", "\n".join(f"- {reason}" for reason in plan.by_hand))
    yield from audit_lines(plan.audit, whole=False)
    yield from problems_block(plan.problems)


def _conversion_rows(plan: JobPlan[CpuJob], made: ConversionPlan) -> Iterator[tuple[str, str]]:
    run, source = plan.run, made.inputs.source
    revision = f" at {source.revision}" if source.revision else ""
    what = f"{source.repo}{revision} for {made.inputs.model}; MaxText {run.release.version}"
    yield from _job_rows(plan, does=("converts", what), disk="the download", wasted="the conversion ends")
    yield from (("incomplete", f"{folder} (kept)") for folder in made.broken)


def _export(plan: JobPlan[CpuJob], made: ExportPlan) -> Iterator[tuple[str, str]]:
    inputs = made.inputs
    what = f"step {inputs.step} of {made.training}, {inputs.form}, {inputs.dtype}; MaxText {inputs.release}"
    yield from _job_rows(plan, does=("exports", what), disk="the model, before it is copied", wasted="the export ends")
    yield from (("incomplete", f"{folder} (kept)") for folder in made.broken)


def _job_rows(plan: JobPlan[CpuJob], *, does: tuple[str, str], disk: str, wasted: str) -> Iterator[tuple[str, str]]:
    """Yield what all jobs have. `disk`: what it is for; `wasted`: until when a slice's chips are."""
    run, job = plan.run, plan.job
    yield "ready", ready_text(plan.problems)
    yield "run", f"{plan.run_name}, digest {plan.spec_digest[:12]}"
    yield does
    yield "cluster", cluster_text(run)
    yield "JobSet", f"{plan.jobset} in namespace {run.namespace}, queue {run.queue}, priority {run.spec.priority}"
    if run.slice:
        yield "slice", f"{run.slice.describe}; {run.slice.machine_type} hosts, of which only the first works"
        yield "wasted", f"{run.chips} chips, until {wasted}"
    else:
        yield "node", f"{job.cpus} CPUs and {job.memory_quantity} of memory, as {job.machine.machine} has"
    yield "disk", f"{job.disk / GIB:,.0f} GiB for {disk}"
    yield "secrets", secrets_text(run)
    yield "result", job.writes
