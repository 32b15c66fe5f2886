"""The files that xsft writes for an export: its run's record, and the record beside the exported model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import to_builtins

from xsft.effects.facts.exported import sizes_in
from xsft.effects.local.folder import RunFolder
from xsft.effects.machine.files import write_atomic
from xsft.effects.machine.paths import private_folder
from xsft.effects.machine.regular import read_text
from xsft.errors import Refused
from xsft.export.plan import ExportPlan
from xsft.export.record import FILE, SPEC_KEY, ExportRecord, to_json
from xsft.export.verification import Verification
from xsft.records.document import to_json as run_to_json
from xsft.records.model import Attempt, Record
from xsft.trainers.record import from_json


def run_folder(plan: ExportPlan) -> RunFolder:
    """Return the folder of the export's own run; its lock covers every export of the training."""
    return RunFolder(path=Path(plan.output) / plan.run_name)


def run_record(plan: ExportPlan) -> Record:
    """Return the run's record with the earlier attempts. Raises Refused if the folder belongs to another run."""
    path = run_folder(plan).record
    new = Record(
        run_name=plan.run_name,
        spec_digest=plan.digest,
        spec={SPEC_KEY: {"directory": plan.directory, **_inputs(plan)}},
        target="local",
        output=plan.output,
    )
    try:
        before = from_json(read_text(path))
    except FileNotFoundError:
        return new
    except ValueError as broken:
        fix = "move the file away; nothing was changed"
        raise Refused(f"{path} cannot be read: {broken}", fix=fix) from broken
    if SPEC_KEY not in before.spec:
        raise Refused(
            f"{path.parent.parent} is the folder of another run, named {plan.run_name} as well",
            fix="take another name for one of the two",
            id="stage-name-taken",
        )
    return replace(new, attempts=tuple(map(_killed, before.attempts)))


def save(record: Record, plan: ExportPlan, *, verification: Verification | None = None) -> None:
    """Write the record beside the model, then the run's. The first one decides whether the export is complete."""
    last = record.last
    folder = Path(plan.directory)
    done = last.outcome == "completed"
    beside = ExportRecord(
        digest=plan.digest,
        run_name=plan.run_name,
        outcome=last.outcome,
        started_at=last.started_at,
        finished_at=last.finished_at,
        reason=last.reason,
        argv=last.argv,
        inputs=_inputs(plan),
        files=sizes_in(folder) if done else {},
        verification=verification,
    )
    private_folder(folder / "xsft")
    write_atomic(folder / FILE, to_json(beside))
    write_atomic(run_folder(plan).record, run_to_json(record))


def rewrite(plan: ExportPlan, record: ExportRecord) -> None:
    """Write the record beside a complete export anew."""
    write_atomic(Path(plan.directory) / FILE, to_json(record))


def is_open(plan: ExportPlan) -> bool:
    """Return whether the run's record says that an attempt is in progress."""
    path = run_folder(plan).record
    return path.is_file() and from_json(read_text(path)).outcome == "running"


def mend(plan: ExportPlan, *, at: str) -> None:
    """Complete the run's record if xsft was killed between the two records of a complete export."""
    if is_open(plan):
        path = run_folder(plan).record
        record = from_json(read_text(path))
        last = replace(record.last, outcome="completed", finished_at=at)
        write_atomic(path, run_to_json(replace(record, attempts=(*record.attempts[:-1], last))))


def _killed(attempt: Attempt) -> Attempt:
    if attempt.outcome != "running":
        return attempt
    return replace(attempt, outcome="failed", reason="xsft or the machine stopped")


def _inputs(plan: ExportPlan) -> dict[str, object]:
    return dict(to_builtins(plan.inputs))
