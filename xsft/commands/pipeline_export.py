"""The export stage on this machine, and the command that serves its result."""

from __future__ import annotations

import shlex

from xsft import api
from xsft.aliases import ShowLine
from xsft.commands.convert import machine
from xsft.commands.export import engine
from xsft.commands.pipeline_here import watch_here
from xsft.effects.facts.exported import plan_ahead, plan_export
from xsft.effects.local import export
from xsft.effects.local.export import ExportWork
from xsft.effects.records.records import record_store
from xsft.errors import UsageError
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

    @property
    def digest(self) -> str:
        return self._plan().digest

    def plan(self) -> StagePlan:
        made = plan_ahead(self._trained(), self._request(), step=self._steps)
        return StagePlan(name=self.name, run_name=made.run_name, digest=None, writes=made.directory, argv=made.argv)

    def find(self) -> StageFound:
        try:
            made = self._plan()
        except UsageError as unsaved:
            return StageFound(state="missing", why=unsaved.message)
        found, verified = export.found(made), made.recorded.verification if made.recorded else None
        compared = verified is not None and (verified.logits or verified.logits_skipped)
        if found.state == "done" and self._asked.verify == "logits" and not compared:
            return StageFound(state="missing", why="it is exported, and its logits were not compared")
        return found

    def perform(self, progress: ShowLine) -> StageEnd:
        return export.perform(
            ExportWork(
                look=self._plan,
                machine=machine,
                say=progress,
                engine=engine if self._asked.verify == "logits" else None,
            )
        )

    def watch(self, timeout_s: float | None) -> None:
        watch_here(output=self._plan().output, run_name=self.run_name, timeout_s=timeout_s)

    @property
    def _steps(self) -> int:
        return self._workload.spec.train.steps

    def _request(self) -> ExportRequest:
        return ExportRequest(form=self._asked.what, step=self._steps)

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
        return plan_export(self._trained(), self._request(), record_store(), output=self._asked.to)


class ServeHere:
    """The command that serves the export: a server would end with this process, so it is not started."""

    name: StageName = "serve"

    def __init__(self, exported: ExportHere) -> None:
        self._exported = exported
        self.run_name = exported.run_name.removesuffix("export") + self.name

    @property
    def digest(self) -> str:
        return self._exported.digest

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
        folder = self._exported.find().result or "FOLDER"
        command = shlex.join(("xsft", "serve", folder))
        return StageEnd(action="skipped", state="missing", why=f"start it by: {command}")

    def watch(self, timeout_s: float | None) -> None:
        """Return at once: nothing runs."""
