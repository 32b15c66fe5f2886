"""The files of an evaluation on this machine: its run's folder with the record, and evaluation.json of each attempt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, to_builtins

from xsft.effects.local.folder import RunFolder
from xsft.effects.local.stage_record import StageRun
from xsft.effects.machine.regular import read_bytes
from xsft.evaluation.inputs import SPEC_KEY
from xsft.evaluation.plan import FILE, EvaluationPlan
from xsft.evaluation.report import MAX_BYTES, EvaluationReport, from_json


class EvaluationFile(Struct, frozen=True, kw_only=True):
    """A complete evaluation.json."""

    path: Path
    report: EvaluationReport


def run_folder(plan: EvaluationPlan) -> RunFolder:
    """Return `<output>/<training>-evaluate`. Raises UsageError if the output is not a folder of this machine."""
    return stage_run(plan).folder


def stage_run(plan: EvaluationPlan) -> StageRun:
    inputs = {key: value for key, value in to_builtins(plan.inputs).items() if value is not None}
    return StageRun(run_name=plan.run_name, digest=plan.digest, output=plan.output, key=SPEC_KEY, inputs=inputs)


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
