"""The export stage on this machine, and the command that serves its result."""

from __future__ import annotations

import shlex

from msgspec.structs import replace

from xsft import api
from xsft.aliases import ShowLine
from xsft.commands.convert import machine
from xsft.commands.export import engine
from xsft.commands.pipeline_here import watch_here
from xsft.effects.facts.exported import plan_ahead
from xsft.effects.local import export_upload
from xsft.effects.local.export import ExportWork, stage_end
from xsft.effects.local.export_upload import ExportRoute, export_by
from xsft.errors import UsageError
from xsft.export.inputs import destination
from xsft.export.plan import ExportPlan
from xsft.naming import stage_name
from xsft.spec.stages import ExportStage
from xsft.stages.stage import StageEnd, StageFound, StageName, StagePlan
from xsft.trainers.export import ExportRequest, TrainedRun


class ExportHere:
    """Export of the last checkpoint to a folder of this machine."""

    name: StageName = "export"

    def __init__(self, workload: api.Loaded, *, training: str) -> None:
        self._workload = workload
        self._asked = workload.spec.stages.export or ExportStage()
        self.run_name = stage_name(run_name=training, stage=self.name)

    def plan(self) -> StagePlan:
        route, (hub, output) = self._route(), destination(self._asked.to)
        here = plan_ahead(route.trained, route.asked, step=self._steps, output=None if route.is_remote else output)
        asked = replace(route.asked, hub=hub)
        made = plan_ahead(route.trained, asked, step=self._steps, output=output, folder=here.first)
        return StagePlan(name=self.name, run_name=made.run_name, digest=None, writes=made.writes, argv=made.argv)

    def find(self) -> StageFound:
        try:
            made = self._plan()
        except UsageError as unsaved:
            return StageFound(state="missing", why=unsaved.message)
        found, verified = export_upload.found(self._route()), made.recorded.verification if made.recorded else None
        compared = verified is not None and (verified.logits or verified.logits_skipped)
        if found.state == "done" and self._asked.verify == "logits" and not compared:
            return StageFound(state="missing", why="it is exported, and its logits were not compared")
        return replace(found, digest=made.digest)

    def perform(self, progress: ShowLine) -> StageEnd:
        route = self._route()
        compared = engine if self._asked.verify == "logits" else None
        work = ExportWork(look=route.here, machine=machine, say=progress, engine=compared)
        return stage_end(export_by(route, work))

    @property
    def folder(self) -> str:
        """Return the folder on this machine, from which a remote destination gets its files."""
        return self._route().here().directory

    def watch(self, timeout_s: float | None) -> None:
        watch_here(output=self._route().here().output, run_name=self.run_name, timeout_s=timeout_s)

    @property
    def _steps(self) -> int:
        return self._workload.spec.train.steps

    def _trained(self) -> TrainedRun:
        (made,) = api.plan((self._workload,))
        return TrainedRun(
            run_name=made.run_name,
            spec_digest=made.spec_digest,
            argv=made.trainer_argv,
            output=str(made.run.output).rstrip("/"),
            release=made.run.release.version,
        )

    def _plan(self) -> ExportPlan:
        return self._route().plan()

    def _route(self) -> ExportRoute:
        asked = ExportRequest(form=self._asked.what, step=self._steps)
        return ExportRoute(trained=self._trained(), asked=asked, to=self._asked.to)


class ServeHere:
    """The command that serves the export: a server would end with this process, so it is not started."""

    name: StageName = "serve"

    def __init__(self, exported: ExportHere) -> None:
        self._exported = exported
        self.run_name = exported.run_name.removesuffix("export") + self.name

    def plan(self) -> StagePlan:
        return StagePlan(
            name=self.name,
            run_name=self.run_name,
            digest=None,
            writes="http://127.0.0.1",
            notes=("on this machine the server is started by hand, by the command that xsft run prints",),
        )

    def find(self) -> StageFound:
        return StageFound(state="missing", why="on this machine it is started by hand")

    def perform(self, progress: ShowLine) -> StageEnd:
        del progress
        command = shlex.join(("xsft", "serve", self._exported.folder))
        return StageEnd(action="skipped", state="missing", why=f"start it by: {command}")

    def watch(self, timeout_s: float | None) -> None:
        """Return at once: nothing runs."""
