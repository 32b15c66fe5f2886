"""The files that xsft writes for an export: its run's record, and the record beside the exported model."""

from __future__ import annotations

from pathlib import Path

from msgspec import to_builtins

from xsft.effects.facts.exported import sizes_in
from xsft.effects.local.folder import RunFolder
from xsft.effects.local.stage_record import StageRun, beside_fields, ended, read_stage, save_record
from xsft.effects.machine.files import write_atomic
from xsft.effects.machine.paths import private_folder
from xsft.export.plan import ExportPlan
from xsft.export.record import FILE, SPEC_KEY, ExportRecord
from xsft.export.verification import Verification
from xsft.records.model import Record
from xsft.stages.result_record import to_json


def run_folder(plan: ExportPlan) -> RunFolder:
    """Return the folder of the export's own run; its lock covers every export of the training."""
    return stage_run(plan).folder


def stage_run(plan: ExportPlan) -> StageRun:
    inputs = {"directory": plan.directory, **_inputs(plan)}
    return StageRun(run_name=plan.run_name, digest=plan.digest, output=plan.output, key=SPEC_KEY, inputs=inputs)


def save(record: Record, plan: ExportPlan, *, verification: Verification | None = None) -> None:
    """Write the record beside the model, then the run's. The first one decides whether the export is complete."""
    folder = Path(plan.directory)
    beside = ExportRecord(
        **beside_fields(record),
        inputs=_inputs(plan),
        files=sizes_in(folder) if record.last.outcome == "completed" else {},
        verification=verification,
    )
    private_folder(folder / "xsft")
    write_atomic(folder / FILE, to_json(beside))
    save_record(record, run_folder(plan))


def rewrite(plan: ExportPlan, record: ExportRecord) -> None:
    """Write the record beside a complete export anew."""
    write_atomic(Path(plan.directory) / FILE, to_json(record))


def is_open(plan: ExportPlan) -> bool:
    """Return whether the run's record says that an attempt is in progress."""
    record = read_stage(run_folder(plan), key=SPEC_KEY)
    return record is not None and record.outcome == "running"


def mend(plan: ExportPlan, *, at: str) -> None:
    """Complete the run's record if xsft was killed between the two records of a complete export."""
    record = read_stage(run_folder(plan), key=SPEC_KEY)
    if record is not None and record.outcome == "running":
        done = ended(record, outcome="completed", reason=None, status=record.last.exit_status, at=at)
        save_record(done, run_folder(plan))


def _inputs(plan: ExportPlan) -> dict[str, object]:
    return dict(to_builtins(plan.inputs))
