"""The Python API of jobs other than the training: plan a conversion, evaluation or export, and submit it to the
workload's cluster."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from xsft.base.acceptance import accept_late
from xsft.base.aliases import ShowLine
from xsft.base.problems import Problem
from xsft.checks.cpu_job import conversion_problems
from xsft.checks.export import pod_problems
from xsft.cluster import cluster
from xsft.evaluation.plan import EvaluationPlan
from xsft.launch.identity import Proposal
from xsft.launch.recording import gather_provenance
from xsft.launch.submission import Submitter, is_whole
from xsft.launcher.cpujob import CpuJob, conversion_job, export_job
from xsft.launcher.launcher import Job
from xsft.launcher.servers import BF16_BYTES, weights_bytes
from xsft.launcher.slicejob import SliceJob, evaluation_job
from xsft.planning import api
from xsft.planning.planner import job_rendering, make_job_plan
from xsft.planning.steps import AnyJob, JobPlan
from xsft.records.record_files import record_store
from xsft.spec.resolve import Run
from xsft.spec.stages import EvaluateStage
from xsft.stages.evaluation_end import is_measured
from xsft.stages.exported import is_exported
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.estimates import estimate_export
from xsft.weights.export_plan import ExportPlan

NOT_ITS = ("data", "train", "eval", "lora", "parallelism", "tpu", "restarts", "pathways", "name", "model.tokenizer")
"""Sections of a workload whose errors do not affect a conversion."""
ITS = ("place", "namespace", "queue", "image", "secrets", "stages", "priority", "output", "env")
"""Sections of a workload whose errors affect an export."""


def plan_conversion(
    made: ConversionPlan,
    run: Run,
    *,
    file: str,
    problems: tuple[Problem, ...],
    progress: ShowLine,
    on_tpu: bool = False,
) -> JobPlan[CpuJob]:
    """Return the plan of the CPU job of a workload's conversion. `problems`: of the workload, strict as a submission
    is. `on_tpu`: on the first host of one slice of the workload's TPU type, which is taken whole.

    Raises SpecError if an error forbids it, Unreachable if it is unknown whether it was converted before.
    """
    ignored = tuple(section for section in NOT_ITS if not (on_tpu and section == "tpu"))
    own = tuple(p for p in problems if p.kind != "unmade" and not p.is_in(ignored))
    late = accept_late(conversion_problems(made, run, on_tpu=on_tpu), run.spec.checks)
    found = api.admitted_problems([problem.in_file(file) for problem in (*own, *late)])
    assert made.estimate is not None  # else `conversion-size`, an error
    job = conversion_job(made, run, made.estimate, on_tpu=on_tpu)
    return plan_job(job, file=file, problems=found, progress=progress)


def plan_export_job(
    made: ExportPlan, run: Run, *, file: str, problems: tuple[Problem, ...], progress: ShowLine
) -> JobPlan[CpuJob]:
    """Return the plan of the CPU job of an export. `problems`: of the workload. Raises as `plan_conversion`."""
    own = tuple(p for p in problems if p.kind != "unmade" and p.is_in(ITS))
    size = weights_bytes(run)
    needs = estimate_export(
        made.inputs, parameters=size // BF16_BYTES if size else None, weights_bytes=made.weights_bytes
    )
    late = accept_late(pod_problems(made, run, needs), run.spec.checks)
    found = api.admitted_problems([problem.in_file(file) for problem in (*own, *late)])
    assert needs is not None  # else `export-size`, an error
    return plan_job(export_job(made, run, needs), file=file, problems=found, progress=progress)


def plan_evaluation(plan: EvaluationPlan, run: Run, *, file: str, progress: ShowLine) -> JobPlan[SliceJob]:
    """Return the plan of the evaluation on the workload's slices. Raises SpecError if its command cannot be sent."""
    stage = run.spec.stages.evaluate or EvaluateStage()
    return plan_job(evaluation_job(plan, run, limit_s=stage.limit_s), file=file, problems=(), progress=progress)


def plan_job(job: AnyJob, *, file: str, problems: tuple[Problem, ...], progress: ShowLine) -> JobPlan[AnyJob]:
    """Return the plan of a job. Raises SpecError if its command cannot be sent, or xpk refuses its line."""
    rendering = job_rendering(job)
    (manifest,) = api.render_manifests((rendering,), progress=progress)
    return make_job_plan(job, rendered=manifest or {}, xpk_argv=rendering.xpk_argv, file=file, problems=problems)


def submitter_for(made: JobPlan[AnyJob], *, progress: ShowLine, confirm: Callable[[Proposal], None]) -> Submitter:
    """Return a submitter connected to the plan's cluster. `confirm`: as in `api.submitter_for`."""
    place = made.run.required_place()

    def replan(attempt: int) -> JobPlan[AnyJob]:
        return plan_job(made.job.attempt(attempt), file=made.file, problems=made.problems, progress=progress)

    return Submitter(
        cluster=cluster.connect(place),
        store=record_store(),
        provenance=gather_provenance(made.file, target=made.run.spec.target),
        replan=replan,
        progress=progress,
        confirm=confirm,
        made=lambda path: is_made(replace(made.job, writes=path)),
    )


def is_made(job: Job) -> bool:
    """Return whether the job's result is complete: of an evaluation by its report, of an export by its record, of a
    conversion by its files."""
    match job:
        case SliceJob():
            return is_measured(job.writes)
        case CpuJob():
            if job.export is None:
                return is_whole(job.writes)
            folder = job.export.directory if job.export.inputs.hub else job.writes
            return is_exported(folder, digest=job.digest)
