"""The record of a stage's own run on this machine: a conversion, an evaluation or an export."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, Refused, UsageError
from xsft.base.targets import THIS_MACHINE
from xsft.launch.local_folder import RunFolder
from xsft.launch.local_machine import Machine
from xsft.machine.files import system_words, write_atomic
from xsft.machine.regular import read_text
from xsft.machine.signals import as_ctrl_c
from xsft.records.document import to_json
from xsft.records.record import Attempt, Outcome, Record
from xsft.records.record_files import record_store
from xsft.records.resumption import complete_record

T = TypeVar("T")


class StageRun(Struct, frozen=True, kw_only=True):
    """A stage's run on this machine, as its record names it."""

    run_name: str
    digest: str
    output: str
    key: str
    """Key of the stage under `spec`; the record of another kind of run does not have it."""
    inputs: Mapping[str, Any]

    @property
    def folder(self) -> RunFolder:
        """`<output>/<run_name>`. Raises UsageError if the output is not a folder of this machine."""
        if not Path(self.output).is_absolute():
            raise UsageError(
                f"{self.output!r} is not an absolute path, and this stage writes to this machine",
                fix="name a folder, e.g. output: ./runs",
            )
        return RunFolder(path=Path(self.output) / self.run_name)


def stage_record(run: StageRun) -> Record:
    """Return the run's record with the earlier attempts. Raises Refused if another kind of run has the folder."""
    before = read_stage(run.folder, key=run.key)
    return Record(
        run_name=run.run_name,
        spec_digest=run.digest,
        spec={run.key: dict(run.inputs)},
        target=THIS_MACHINE,
        output=run.output,
        attempts=tuple(map(_killed_attempt, before.attempts)) if before else (),
    )


def read_stage(folder: RunFolder, *, key: str) -> Record | None:
    """Return the record of a stage's run; None without one. Raises Refused if another kind of run has the folder."""
    try:
        record = complete_record(read_text(folder.record))
    except FileNotFoundError:
        return None
    except ValueError as broken:
        fix = "move the file away; nothing was changed"
        raise Refused(f"{folder.record} cannot be read: {broken}", fix=fix) from broken
    if key in record.spec:
        return record
    raise Refused(
        f"{folder.path} is the folder of another run, named {folder.path.name} as well",
        fix="use another name for one of the two runs",
        id="stage-name-taken",
    )


def begin_attempt(
    record: Record, argv: tuple[str, ...], *, folder: RunFolder, machine: Machine, save: Callable[[Record], None]
) -> Record:
    """Return the record with the attempt that begins now: `argv` with the machine's Python, and its own log file. It is
    saved, and added to the index of runs.
    """
    number = 1 + max((one.number for one in record.attempts), default=0)
    attempt = Attempt(
        number=number,
        argv=(str(machine.python), *argv[1:]),
        log=str(folder.own / f"trainer-{number}.log"),
        started_at=machine.now(),
        spec_digest=record.spec_digest,
        private_pids=machine.contain().private,
    )
    record = replace(record, attempts=(*record.attempts, attempt))
    save(record)
    record_store(machine.env).index(record, str(folder.record))
    return record


def with_end(record: Record, *, outcome: Outcome, reason: str | None, status: int | None, at: str) -> Record:
    last = replace(record.last, outcome=outcome, reason=reason, exit_status=status, finished_at=at)
    return replace(record, attempts=(*record.attempts[:-1], last))


def save_record(record: Record, folder: RunFolder) -> None:
    write_atomic(folder.record, to_json(record))


def beside_fields(record: Record) -> dict[str, Any]:
    """Return the fields that the record beside a result (`ResultRecord`) has from the run's record."""
    names = ("outcome", "started_at", "finished_at", "reason", "argv")
    last = {name: getattr(record.last, name) for name in names}
    return {"digest": record.spec_digest, "run_name": record.run_name, **last}


def run_recorded(work: Callable[[], T], *, record: Callable[[Outcome, str], T]) -> T:
    """Return what `work` returns, which records its own end. If it is interrupted, return what `record` does with that
    outcome and the reason; any other exception is recorded and raised again.
    """
    try:
        with as_ctrl_c():
            return work()
    except KeyboardInterrupt as stop:
        return record("interrupted", interruption(stop))
    except BaseException as failed:
        record("failed", str(failed))
        raise


def interruption(stop: KeyboardInterrupt) -> str:
    """Return the reason of an outcome: the signal (`signals.as_ctrl_c`), or Ctrl-C."""
    return f"ended by {stop}" if str(stop) else "interrupted by the user"


@contextmanager
def check_usable(folder: Path) -> Iterator[None]:
    """Raise an error with the fix if the folder cannot be written or the disk is full."""
    try:
        yield
    except OSError as failed:
        raise EnvironmentMissing(
            f"{folder} cannot be used: {system_words(failed)}",
            fix="free some space or name another output; saved files are kept",
        ) from failed


def _killed_attempt(attempt: Attempt) -> Attempt:
    if attempt.outcome != "running":
        return attempt
    return replace(attempt, outcome="failed", reason="xsft or the machine stopped")
