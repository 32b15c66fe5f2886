"""The Python API of jobs on a training's slices: plan a workload's evaluation, and submit it to its cluster."""

from __future__ import annotations

from collections.abc import Callable

from xsft import api
from xsft.aliases import ShowLine
from xsft.effects.cluster import cluster
from xsft.effects.records.records import record_store
from xsft.effects.submit.evaluation import is_measured
from xsft.effects.submit.proposal import Proposal
from xsft.effects.submit.recording import gather_provenance
from xsft.effects.submit.submission import Submitter
from xsft.errors import UsageError
from xsft.evaluation.plan import EvaluationPlan
from xsft.launchers.launcher import XpkRendering
from xsft.launchers.slicejob import SliceJob, attempt_of_slice_job, evaluation_job
from xsft.planner import make_slice_plan, slice_rendering
from xsft.spec.resolve import Run
from xsft.spec.stages import EvaluateStage
from xsft.steps import SlicePlan


def plan_evaluation(plan: EvaluationPlan, run: Run, *, file: str, progress: ShowLine) -> SlicePlan:
    """Return the plan of the evaluation on the workload's slices. Raises SpecError if its command cannot be sent."""
    stage = run.spec.stages.evaluate or EvaluateStage()
    return plan_job(evaluation_job(plan, run, limit_s=stage.limit_s), file=file, progress=progress)


def plan_job(job: SliceJob, *, file: str, progress: ShowLine) -> SlicePlan:
    """Return the plan of a job. Raises SpecError if its command cannot be sent, or xpk refuses its line."""
    rendering = slice_rendering(job)
    (manifest,) = api.rendered((rendering,), progress=progress)
    argv = rendering.argv if isinstance(rendering, XpkRendering) else None
    return make_slice_plan(job, rendered=manifest or {}, xpk_argv=argv, file=file)


def submitter_for(made: SlicePlan, *, progress: ShowLine, confirm: Callable[[Proposal], None]) -> Submitter:
    """Return a submitter connected to the plan's cluster. `confirm`: as in `api.submitter_for`."""
    if made.run.place is None:
        raise UsageError("the workload has no place.", fix="Add one: place: main, or inline.")

    def replan(attempt: int) -> SlicePlan:
        return plan_job(attempt_of_slice_job(made.job, attempt), file=made.file, progress=progress)

    return Submitter(
        cluster=cluster.connect(made.run.place),
        store=record_store(),
        provenance=gather_provenance(made.file),
        replan=replan,
        progress=progress,
        confirm=confirm,
        made=is_measured,
    )
