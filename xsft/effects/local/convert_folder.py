"""The files that xsft writes for a conversion on this machine: its run's folder, and a record beside the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace as changed

from xsft.conversion.plan import ConversionPlan
from xsft.conversion.record import FILE, SPEC_KEY, ConversionRecord, to_json
from xsft.effects.local.folder import RunFolder
from xsft.effects.machine.files import write_atomic
from xsft.effects.machine.paths import private_folder
from xsft.effects.machine.regular import read_text
from xsft.errors import Refused, UsageError
from xsft.records.document import to_json as run_to_json
from xsft.records.model import Attempt, Outcome, Record
from xsft.trainers.record import from_json


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
    for path in (plan.output, plan.directory):
        if not Path(path).is_absolute():
            raise UsageError(
                f"{path} is not an absolute path, and a conversion here writes to this machine",
                fix="name a folder, e.g. output: ./runs",
            )
    run = RunFolder(path=Path(plan.output) / plan.run_name)
    return ConversionFolder(run=run, first=Path(plan.first), directory=Path(plan.directory))


def run_record(plan: ConversionPlan, folder: ConversionFolder) -> Record:
    """Return the run's record with the earlier attempts. Raises Refused if the folder belongs to a training run."""
    new = Record(
        run_name=plan.run_name,
        spec_digest=plan.digest,
        spec={SPEC_KEY: {"training": plan.training, "directory": plan.directory, **_inputs(plan)}},
        target="local",
        output=plan.output,
    )
    try:
        before = from_json(read_text(folder.run.record))
    except FileNotFoundError:
        return new
    except ValueError as broken:
        fix = "move the file away; nothing was changed"
        raise Refused(f"{folder.run.record} cannot be read: {broken}", fix=fix) from broken
    if SPEC_KEY not in before.spec:
        raise Refused(
            f"{folder.run.path} is the folder of another run, named {plan.run_name} as well",
            fix="take another name for one of the two",
            id="stage-name-taken",
        )
    return replace(new, attempts=tuple(map(_killed, before.attempts)))


def begun(record: Record, attempt: Attempt) -> Record:
    return replace(record, attempts=(*record.attempts, attempt))


def ended(record: Record, *, outcome: Outcome, reason: str | None, status: int | None, at: str) -> Record:
    last = replace(record.last, outcome=outcome, reason=reason, exit_status=status, finished_at=at)
    return replace(record, attempts=(*record.attempts[:-1], last))


def save(record: Record, plan: ConversionPlan, folder: ConversionFolder) -> None:
    """Write both records: the run's, then the one beside the result."""
    write_atomic(folder.run.record, run_to_json(record))
    last = record.last
    beside = ConversionRecord(
        digest=plan.digest,
        run_name=plan.run_name,
        outcome=last.outcome,
        started_at=last.started_at,
        finished_at=last.finished_at,
        reason=last.reason,
        argv=last.argv,
        inputs=_inputs(plan),
    )
    private_folder(folder.record.parent)
    write_atomic(folder.record, to_json(beside))


def mend(plan: ConversionPlan, folder: ConversionFolder, *, at: str) -> None:
    """Complete the records of a save that ended when xsft was killed before it could record that."""
    if plan.recorded is None or plan.whole is None:
        return
    beside = Path(plan.whole).parent.parent / FILE
    write_atomic(beside, to_json(changed(plan.recorded, outcome="completed", finished_at=at)))
    if not folder.run.record.is_file():
        return
    record = run_record(plan, folder)
    if record.attempts and record.last.argv == plan.recorded.argv:
        saved = ended(record, outcome="completed", reason=None, status=record.last.exit_status, at=at)
        write_atomic(folder.run.record, run_to_json(saved))


def _killed(attempt: Attempt) -> Attempt:
    if attempt.outcome != "running":
        return attempt
    return replace(attempt, outcome="failed", reason="xsft or the machine stopped")


def _inputs(plan: ConversionPlan) -> dict[str, object]:
    return dict(to_builtins(plan.inputs))
