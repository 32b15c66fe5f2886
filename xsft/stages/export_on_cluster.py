"""The cluster side of `xsft checkpoint export`: one CPU job, created once."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.errors import UsageError
from xsft.launch.listener import ActionListener
from xsft.launch.submission import Submission
from xsft.launch.submit_to_cluster import submit_cluster
from xsft.launch.wait_for_end import after_plan
from xsft.launcher.cpujob import EXPORTED
from xsft.machine.interrupts import NOTHING_CREATED, when_interrupted
from xsft.planning.steps import Intent
from xsft.records.record_files import record_store
from xsft.runs.waiting import WaitResult
from xsft.spec.export_inputs import destination
from xsft.stages import jobs
from xsft.stages.cpu_job import CpuJobPlanned, CpuJobRequest, CpuJobSubmitted, ResultFound, record_ended, record_found
from xsft.stages.exported import plan_export
from xsft.weights.export_plan import ExportPlan
from xsft.weights.exporter import ExportRequest, TrainedRun

ExportedByJob = ResultFound[ExportPlan] | CpuJobPlanned[ExportPlan] | CpuJobSubmitted[ExportPlan]


def no_logits() -> UsageError:
    return UsageError(
        "The image of a cluster has no second engine: an export there is verified by its tensors only.",
        fix="Leave --verify logits out; or export here, to a folder: --output FOLDER --verify logits.",
        id="export-logits-cluster",
    )


def plan_for_pod(trained: TrainedRun, request: ExportRequest, *, to: str | None) -> ExportPlan:
    """Return the plan of an export by a pod. `to`: gs://…, a folder that pods mount, or hf://owner/name; None: beside
    the training. Raises as `plan_export`."""
    hub, output = destination(to)
    return plan_export(trained, replace(request, hub=hub), record_store(), output=output, folder=EXPORTED)


def export_cluster(
    intent: Intent, made: ExportPlan, *, file: str, request: CpuJobRequest, log: ShowLine, listener: ActionListener
) -> ExportedByJob:
    """Return the finished export, else the plan of the job for a dry run, else the job, which is submitted; a wait
    shows its log by `log`. Raises as `jobs.plan_export_job` and `submit_cluster` do.
    """
    if made.whole:
        return ResultFound(made=made, problems=record_found(str(intent.run.output), run_name=made.run_name))
    with when_interrupted(NOTHING_CREATED), listener.working("xsft") as progress:
        plan = jobs.plan_export_job(made, intent.run, file=file, problems=intent.problems, progress=progress)
    if request.dry_run:
        return CpuJobPlanned(made=made, plan=plan)

    def wait(done: Submission) -> WaitResult:
        """Wait for the job with its log, and record its end by the record that the pod wrote last."""
        after = after_plan(plan, patience=request.limits, log=log, listener=listener)
        return record_ended(done, after.wait(done))

    connect = partial(jobs.submitter_for, plan)
    waits = wait if request.waits else None
    end = submit_cluster(plan, connect=connect, listener=listener, ask=request.ask, wait=waits)
    return CpuJobSubmitted(made=made, end=end)
