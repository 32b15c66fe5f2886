"""The export stage on this machine and on a cluster, and on this machine the command that serves its result."""

from __future__ import annotations

import shlex
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.errors import RunFailed, SpecError, Unknown, UsageError
from xsft.base.names import stage_name
from xsft.base.reporting import Reporter
from xsft.base.stage import StageEnd, StageFound, StageName, StagePlan
from xsft.launcher.cpujob import EXPORTED, CpuJob
from xsft.planning import api
from xsft.planning.steps import Intent, JobPlan
from xsft.spec.export_inputs import destination
from xsft.spec.stages import ExportStage
from xsft.stages import jobs
from xsft.stages.cluster_stages import ClusterCall, ClusterStage, SharedIntent, job_plan
from xsft.stages.cpu_job import no_logits, plan_for_pod
from xsft.stages.export import ExportRoute, ExportWork, export_by, export_found, export_work, intended_training
from xsft.stages.exported import plan_ahead
from xsft.stages.local_stages import StageHere
from xsft.weights.export_plan import ExportPlan
from xsft.weights.exporter import ExportRequest


def export_stage(workload: api.LoadedWorkload, *, training: str, listener: Reporter) -> StageHere:
    """Return the export of the last checkpoint on this machine."""
    stage = workload.spec.stages.export or ExportStage()
    steps = workload.spec.train.steps

    def plan() -> StagePlan:
        hub, output = destination(stage.to)
        route = export_route(workload)
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
    return ExportRoute(trained=intended_training(intent), asked=request, to=stage.to)


class ExportOnCluster(ClusterStage):
    """Export of the last checkpoint by a CPU job of the workload's cluster."""

    name: StageName = "export"

    def __init__(self, asked: SharedIntent, *, training: str, call: ClusterCall) -> None:
        super().__init__(asked, training=training, call=call)
        self._asked = asked.workload.spec.stages.export or ExportStage()

    def plan(self) -> StagePlan:
        """Return the plan as it is before the training: the digits of the folder's name come with the checkpoint."""
        if self._asked.verify == "logits":
            raise no_logits()
        intent = self.asked.now()
        hub, output = destination(self._asked.to)
        request = ExportRequest(form=self._asked.what, hub=hub)
        steps = self.asked.workload.spec.train.steps
        made = plan_ahead(intended_training(intent), request, step=steps, output=output, folder=EXPORTED)
        planned = job_plan(self._plan_job(made, intent, progress=lambda _line: None), name=self.name)
        return replace(planned, digest=None)

    def find(self) -> StageFound:
        """Return what the records in the output say; the cluster is not asked."""
        intent = self.asked.now()
        try:
            made = self._export_plan(intent)
        except SpecError:
            raise
        except UsageError as unsaved:
            return StageFound(state="missing", why=unsaved.message)
        if made.whole:
            self.record_end(str(intent.run.output), self.run_name, failed=None)
        return replace(export_found(made, result=made.served), digest=made.digest)

    def perform(self, progress: ShowLine) -> StageEnd:
        intent = self.asked.now()
        made = self._export_plan(intent)
        plan = self._plan_job(made, intent, progress=progress)
        why = export_found(made, result=made.served).why
        return self.submit(plan, connect=partial(jobs.submitter_for, plan), why=why)

    def watch(self, timeout_s: float | None) -> None:
        """Wait for the job's end; a job that failed after its export was complete is done."""
        try:
            super().watch(timeout_s)
        except (RunFailed, Unknown) as failed:
            intent = self.asked.now()
            made = self._export_plan(intent)
            if made.whole is None:
                why = (made.recorded and made.recorded.reason) or failed.message
                self.record_end(str(intent.run.output), self.run_name, failed=why)
                raise RunFailed(f"{self.run_name}: {why}", fix=f"Its log: xsft logs {self.run_name}.") from failed

    def _export_plan(self, intent: Intent) -> ExportPlan:
        request = ExportRequest(form=self._asked.what, step=self.asked.workload.spec.train.steps)
        return plan_for_pod(intended_training(intent), request, to=self._asked.to)

    def _plan_job(self, made: ExportPlan, intent: Intent, *, progress: ShowLine) -> JobPlan[CpuJob]:
        file = self.asked.workload.file
        return jobs.plan_export_job(made, intent.run, file=file, problems=intent.problems, progress=progress)


class ServeHere(Struct, frozen=True, kw_only=True):
    """The command that serves the export: a server would end with this process, so it is not started."""

    workload: api.LoadedWorkload
    run_name: str
    name: StageName = "serve"

    def plan(self) -> StagePlan:
        how = "on this machine the server is started by hand, by the command that xsft run prints"
        return StagePlan(name="serve", run_name=self.run_name, digest=None, writes="http://127.0.0.1", notes=(how,))

    def find(self) -> StageFound:
        return StageFound(state="missing", why="on this machine it is started by hand")

    def perform(self, progress: ShowLine) -> StageEnd:
        del progress
        command = shlex.join(("xsft", "serve", export_route(self.workload).plan().directory))
        return StageEnd(action="skipped", state="missing", why=f"start it by: {command}")

    def watch(self, timeout_s: float | None) -> None:
        """Return at once: nothing runs."""
