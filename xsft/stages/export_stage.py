"""The export stage, on this machine and on a cluster."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.acceptance import accept_late
from xsft.base.aliases import ShowLine
from xsft.base.errors import UsageError
from xsft.base.names import stage_name
from xsft.base.reporting import Reporter, hear_nothing
from xsft.base.stage import StageFound, StageName, StagePlan
from xsft.checks.export import pod_problems
from xsft.launcher.cpujob import EXPORTED, CpuJob, export_job
from xsft.launcher.servers import BF16_BYTES, weights_bytes
from xsft.planning import api
from xsft.planning.steps import JobPlan
from xsft.records.record_files import record_store
from xsft.spec.export_inputs import destination
from xsft.spec.stages import ExportStage
from xsft.stages.cluster_job import SharedIntent, described_job, plan_job
from xsft.stages.export import ExportRoute, ExportWork, export_by, export_found, export_work, intended_training
from xsft.stages.exported import plan_ahead, plan_export
from xsft.stages.once import StageHere
from xsft.weights.estimates import estimate_export
from xsft.weights.export_plan import ExportPlan
from xsft.weights.exporter import ExportRequest


def export_stage(workload: api.LoadedWorkload, *, training: str, listener: Reporter) -> StageHere:
    """Return the export of the last checkpoint on this machine."""
    stage = workload.spec.stages.export or ExportStage()
    steps = workload.spec.train.steps

    def plan() -> StagePlan:
        route = export_route(workload)
        hub, output = destination(route.to)
        request = replace(route.asked, hub=hub)
        made = plan_ahead(route.trained, request, step=steps, output=output)
        return StagePlan(name="export", run_name=made.run_name, digest=None, writes=made.writes, argv=made.argv)

    def job(progress: ShowLine) -> ExportWork:
        route = export_route(workload)
        return export_work(route, say=progress, logits=stage.verify == "logits", listener=listener)

    return StageHere(
        name="export",
        run_name=stage_name(run_name=training, stage="export"),
        plan=plan,
        job=job,
        do=lambda progress: export_by(export_route(workload), job(progress)),
    )


def export_route(workload: api.LoadedWorkload) -> ExportRoute:
    """Return what the workload's export stage exports, and where it goes."""
    stage = workload.spec.stages.export or ExportStage()
    (intent,) = api.intend((workload,))
    request = ExportRequest(form=stage.what, step=workload.spec.train.steps)
    to = stage.to and intent.run.located(stage.to)
    return ExportRoute(trained=intended_training(intent), asked=request, to=to)


ITS = ("place", "namespace", "queue", "image", "secrets", "stages", "priority", "output", "env")
"""Sections of a workload whose errors affect an export."""


class ExportJob(Struct, frozen=True, kw_only=True):
    """Export of a checkpoint by a CPU job of the workload's cluster; a `ClusterJob`."""

    intent: SharedIntent
    request: ExportRequest
    to: str | None
    """gs://…, a folder that pods mount, or hf://owner/name; None: beside the training."""
    name: StageName = "export"

    def ahead(self) -> StagePlan:
        """Return the plan as it is before the training: the digits of the folder's name come with the checkpoint."""
        stage = self.intent.workload.spec.stages.export
        if stage and stage.verify == "logits":
            raise no_logits()
        hub, output = destination(self.to)
        request = replace(self.request, hub=hub)
        steps = self.intent.workload.spec.train.steps
        trained = intended_training(self.intent.now())
        made = plan_ahead(trained, request, step=steps, output=output, folder=EXPORTED)
        return replace(described_job(self._planned(made, hear_nothing), name=self.name), digest=None)

    def look(self) -> ExportPlan:
        hub, output = destination(self.to)
        trained = intended_training(self.intent.now())
        request = replace(self.request, hub=hub)
        return plan_export(trained, request, record_store(), output=output, folder=EXPORTED)

    def found(self, plan: ExportPlan) -> StageFound:
        return replace(export_found(plan, result=plan.served), digest=plan.digest)

    def recorded_name(self, plan: ExportPlan) -> str:
        return plan.run_name

    def ready(self, progress: ShowLine, *, is_sent: bool) -> tuple[ExportPlan, JobPlan[CpuJob]]:
        del is_sent  # it takes no claim
        plan = self.look()
        return plan, self._planned(plan, progress)

    def show_end(self, plan: ExportPlan) -> None:
        """Show nothing: the report of the stage names the folder."""

    def _planned(self, made: ExportPlan, progress: ShowLine) -> JobPlan[CpuJob]:
        """Return the plan of the CPU job. Raises SpecError if an error of the workload forbids it."""
        intent, file = self.intent.now(), self.intent.workload.file
        run = intent.run
        own = tuple(p for p in intent.problems if p.kind != "unmade" and p.is_in(ITS))
        size = weights_bytes(run)
        parameters = None
        if size:
            parameters = size // BF16_BYTES
        needs = estimate_export(made.inputs, parameters=parameters, weights_bytes=made.weights_bytes)
        late = accept_late(pod_problems(made, run, needs), run.spec.checks)
        admitted = api.admitted_problems([problem.in_file(file) for problem in (*own, *late)])
        assert needs is not None  # else `export-size`, an error
        return plan_job(export_job(made, run, needs), file=file, problems=admitted, progress=progress)


def staged_export(intent: SharedIntent) -> ExportJob:
    """Return the export of the workload's last checkpoint, as its stage says."""
    stage = intent.workload.spec.stages.export or ExportStage()
    request = ExportRequest(form=stage.what, step=intent.workload.spec.train.steps)
    return ExportJob(intent=intent, request=request, to=stage.to)


def no_logits() -> UsageError:
    return UsageError(
        "The image of a cluster has no second engine: an export there is verified by its tensors only.",
        fix="Leave --verify logits out; or export here, to a folder: --output FOLDER --verify logits.",
        id="export-logits-cluster",
    )
