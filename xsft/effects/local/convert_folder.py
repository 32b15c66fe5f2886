"""The files that xsft writes for a conversion on this machine: its run's folder, and a record beside the result."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.conversion.plan import ConversionPlan
from xsft.conversion.record import FILE, SPEC_KEY, ConversionRecord
from xsft.effects.local.folder import RunFolder
from xsft.effects.local.stage_record import StageRun, beside_fields, ended, save_record, stage_record
from xsft.effects.machine.files import write_atomic
from xsft.effects.machine.paths import private_folder
from xsft.records.model import Record
from xsft.stages.result_record import to_json


class ConversionFolder(Struct, frozen=True, kw_only=True):
    run: RunFolder
    """`<output>/<run_name>-convert`."""
    first: Path
    """The folder of the first try; its lock covers the whole conversion, whichever run requests it."""
    directory: Path
    """The folder of this try."""

    @property
    def lock(self) -> Path:
        return self.first / "xsft" / "lock"

    @property
    def record(self) -> Path:
        return self.directory / FILE


def folder_of(plan: ConversionPlan) -> ConversionFolder:
    """Return the folder. Raises UsageError if the output is not a folder of this machine."""
    return ConversionFolder(run=stage_run(plan).folder, first=Path(plan.first), directory=Path(plan.directory))


def stage_run(plan: ConversionPlan) -> StageRun:
    inputs = {"training": plan.training, "directory": plan.directory, **_inputs(plan)}
    return StageRun(run_name=plan.run_name, digest=plan.digest, output=plan.output, key=SPEC_KEY, inputs=inputs)


def save(record: Record, plan: ConversionPlan, folder: ConversionFolder) -> None:
    """Write both records: the run's, then the one beside the result."""
    save_record(record, folder.run)
    beside = ConversionRecord(**beside_fields(record), inputs=_inputs(plan))
    private_folder(folder.record.parent)
    write_atomic(folder.record, to_json(beside))


def mend(plan: ConversionPlan, folder: ConversionFolder, *, at: str) -> None:
    """Complete the records of a save that ended when xsft was killed before it could record that."""
    if plan.recorded is None or plan.whole is None:
        return
    beside = Path(plan.whole).parent.parent / FILE
    write_atomic(beside, to_json(replace(plan.recorded, outcome="completed", finished_at=at)))
    if not folder.run.record.is_file():
        return
    record = stage_record(stage_run(plan))
    if record.attempts and record.last.argv == plan.recorded.argv:
        saved = ended(record, outcome="completed", reason=None, status=record.last.exit_status, at=at)
        save_record(saved, folder.run)


def _inputs(plan: ConversionPlan) -> dict[str, object]:
    return dict(to_builtins(plan.inputs))
