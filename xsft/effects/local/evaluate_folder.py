"""The files of an evaluation on this machine: its run's folder with the record, and evaluation.json of each attempt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msgspec import Struct, to_builtins

from xsft.effects.local.folder import RunFolder
from xsft.effects.machine.files import write_atomic
from xsft.effects.machine.regular import read_bytes, read_text
from xsft.errors import Refused, UsageError
from xsft.evaluation.inputs import SPEC_KEY
from xsft.evaluation.plan import FILE, EvaluationPlan
from xsft.evaluation.report import MAX_BYTES, EvaluationReport, from_json
from xsft.records.document import to_json
from xsft.records.model import Attempt, Outcome, Record
from xsft.trainers.record import from_json as record_of


class EvaluationFile(Struct, frozen=True, kw_only=True):
    """A complete evaluation.json."""

    path: Path
    report: EvaluationReport


def run_folder(plan: EvaluationPlan) -> RunFolder:
    """Return `<output>/<training>-evaluate`. Raises UsageError if the output is not a folder of this machine."""
    if not Path(plan.output).is_absolute():
        raise UsageError(
            f"{plan.output!r} is not an absolute path, and an evaluation here writes to this machine",
            fix="name a folder, e.g. output: ./runs",
        )
    return RunFolder(path=Path(plan.output) / plan.run_name)


def attempts_of(plan: EvaluationPlan) -> tuple[Path, ...]:
    """Return the folders of this evaluation's attempts, the first one first."""
    first = Path(plan.directory)
    names = [p.name for p in first.parent.iterdir()] if first.parent.is_dir() else []
    numbered = {name.removeprefix(f"{first.name}-"): name for name in names if name.startswith(f"{first.name}-")}
    later = sorted((int(number), name) for number, name in numbered.items() if number.isdecimal())
    return (*((first,) if first.name in names else ()), *(first.parent / name for _, name in later))


def existing(plan: EvaluationPlan) -> EvaluationFile | None:
    """Return the newest complete evaluation of these inputs; None without one."""
    return next(_complete(plan), None)


def _complete(plan: EvaluationPlan) -> Iterator[EvaluationFile]:
    for folder in reversed(attempts_of(plan)):
        try:
            report = from_json(read_bytes(folder / FILE, limit=MAX_BYTES))
        except OSError:
            continue
        if report is not None and report.digest == plan.digest:
            yield EvaluationFile(path=folder / FILE, report=report)


def read_run(folder: RunFolder) -> Record | None:
    """Return the run's record; None without one. Raises Refused if the folder belongs to another kind of run."""
    try:
        record = record_of(read_text(folder.record))
    except FileNotFoundError:
        return None
    except ValueError as broken:
        fix = "move the file away; nothing was changed"
        raise Refused(f"{folder.record} cannot be read: {broken}", fix=fix) from broken
    if SPEC_KEY in record.spec:
        return record
    raise Refused(
        f"{folder.path} is the folder of another run, named {folder.path.name} as well",
        fix="take another name for one of the two",
        id="stage-name-taken",
    )


def begun(plan: EvaluationPlan, folder: RunFolder, attempt: Attempt) -> Record:
    """Return the run's record with a new attempt after the earlier ones."""
    before = read_run(folder)
    earlier = tuple(map(_killed, before.attempts)) if before else ()
    inputs = {key: value for key, value in to_builtins(plan.inputs).items() if value is not None}
    return Record(
        run_name=plan.run_name,
        spec_digest=plan.digest,
        spec={SPEC_KEY: inputs},
        target="local",
        output=plan.output,
        attempts=(*earlier, replace(attempt, number=1 + max((one.number for one in earlier), default=0))),
    )


def ended(record: Record, *, outcome: Outcome, reason: str | None, status: int | None, at: str) -> Record:
    last = replace(record.last, outcome=outcome, reason=reason, exit_status=status, finished_at=at)
    return replace(record, attempts=(*record.attempts[:-1], last))


def save(record: Record, folder: RunFolder) -> None:
    write_atomic(folder.record, to_json(record))


def _killed(attempt: Attempt) -> Attempt:
    if attempt.outcome != "running":
        return attempt
    return replace(attempt, outcome="failed", reason="xsft or the machine stopped")
