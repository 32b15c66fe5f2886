"""Exports on this machine, to a folder, or through one to a bucket or the hub.

The upload is the last part of the program that a cluster's pod runs (`workers.export_container`): a record at the
destination is written last, and nothing there is overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing
from xsft.base.stage import StageFound
from xsft.launcher.export_command import uploaded_argv
from xsft.machine.hub_login import hub_token
from xsft.machine.paths import own_cache
from xsft.machine.scratch import scratch_folder
from xsft.machine.signals import as_ctrl_c
from xsft.records.record import Outcome
from xsft.records.record_files import record_store
from xsft.spec.export_inputs import destination
from xsft.stages import export
from xsft.stages.export import ExportResult, ExportWork, export_here
from xsft.stages.export_work import ExportShop, run
from xsft.stages.exported import plan_export
from xsft.stages.served_model import refuse_unreadable
from xsft.weights.engines import model_type
from xsft.weights.export_plan import ExportPlan
from xsft.weights.exporter import ExportRequest, TrainedRun

BUCKET = "gs://"


class ExportRoute(Struct, frozen=True, kw_only=True):
    """An export on this machine, and where it goes."""

    trained: TrainedRun
    asked: ExportRequest
    to: str | None = None
    """A folder, gs://… or hf://owner/name; None: beside the training."""

    @property
    def is_remote(self) -> bool:
        hub, output = destination(self.to)
        return hub is not None or (output or self.trained.output).startswith(BUCKET)

    def plan(self) -> ExportPlan:
        """Return the plan at the destination. Raises as `plan_export`."""
        return self.there() if self.is_remote else self.here()

    def here(self) -> ExportPlan:
        """Return the plan of the folder on this machine: the destination, or the one that is uploaded. Raises as
        `plan_export`."""
        beside = str(own_cache() / "exports") if self.trained.output.startswith(BUCKET) else None
        return plan_export(self.trained, self.asked, record_store(), output=beside if self.is_remote else self.to)

    def there(self, *, folder: str = "") -> ExportPlan:
        """Return the plan at a remote destination, of the files in `folder`. Raises as `plan_export`."""
        hub, output = destination(self.to)
        request = replace(self.asked, hub=hub)
        return plan_export(self.trained, request, record_store(), output=output, folder=folder or ".")


def export_by(route: ExportRoute, work: ExportWork) -> ExportResult:
    """Return the export at its destination, made if it is missing. `work`: that of `route.here`. Raises as
    `export_here`."""
    _refuse_engine(work)
    if not route.is_remote:
        return export_here(work)
    remote = route.there()
    if remote.whole:
        return export.existing_result(remote)
    refuse_without_token(remote, env=work.machine().env)
    done = export_here(work)
    return _upload_folder(route, work, done) if done.outcome == "completed" else done


def _refuse_engine(work: ExportWork) -> None:
    """Raise UsageError, engine-model-unknown, before anything is exported, if the engine cannot read the model."""
    if work.engine is None:
        return
    plan = work.look()
    if plan.inputs.form != "adapters":
        refuse_unreadable(model_type(plan.inputs.model), named=plan.inputs.model, engine=work.engine())


def refuse_without_token(plan: ExportPlan, *, env: Mapping[str, str]) -> None:
    """Raise EnvironmentMissing, before anything is exported, if the hub would refuse the upload."""
    if plan.inputs.hub and not hub_token(env):
        raise EnvironmentMissing(
            f"Uploading to {plan.writes} needs a login to the Hugging Face hub.",
            fix="Log in with a token that may write: hf auth login. HF_TOKEN is not passed on; HF_TOKEN_PATH is.",
            id="export-token-missing",
        )


def find_upload(route: ExportRoute) -> StageFound:
    """Return what exists of the export at its destination; reads small files only."""
    local = export.find_export(route.here())
    if not route.is_remote:
        return local
    remote = route.there()
    if remote.whole:
        return export.find_export(remote)
    if local.state != "done":
        return local
    return StageFound(state="missing", why=f"{local.result} is complete, but not copied to {remote.writes}")


def _upload_folder(route: ExportRoute, work: ExportWork, done: ExportResult) -> ExportResult:
    folder = str(done.folder)
    plan, log = route.there(folder=folder), Path(folder) / "xsft" / "upload.log"
    work.say(f"copying {folder} to {plan.writes}")
    machine = work.machine()
    argv = (str(machine.python), "-I", *uploaded_argv(plan, done.verification)[1:])
    outcome: Outcome = "failed"
    status = 0
    try:
        with scratch_folder("upload") as scratch, as_ctrl_c():
            shop = ExportShop(machine=machine, scratch=scratch, logs=log.parent)
            status = run(argv, shop, log=log, online=True)
    except KeyboardInterrupt:
        outcome = "interrupted"
    after = route.there(folder=folder)
    why = (after.recorded and after.recorded.reason) or f"the copy to {plan.writes} ended with exit status {status}"
    if after.whole:
        return replace(done, plan=after, folder=after.writes, log=log)
    return replace(done, plan=after, outcome=outcome, reason=why, folder=None, log=log)
