"""State of the runs on this machine: their records, the end of their logs, and whether a process holds their locks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from xsft.base.errors import XsftError
from xsft.base.names import StageWork
from xsft.base.targets import THIS_MACHINE
from xsft.cluster.observation import UNENDED, Observation, Recorded, Unread
from xsft.machine.filelock import is_held
from xsft.machine.files import system_words
from xsft.machine.objects import LocalObjects, latest_step
from xsft.machine.regular import open_regular, read_bytes
from xsft.records import CONVERSION_KEY, EVALUATION_KEY, EXPORT_KEY, FOLDER, LOCAL_RECORD
from xsft.records.document import read_record
from xsft.records.index import IndexEntry
from xsft.records.record import Record
from xsft.trainer.progress import LoggedLine, Progress, progress_of

LOCK = "lock"
"""As `RunFolder.lock` (effects/local/folder.py)."""
TAIL_BYTES = 128 * 1024
"""Bytes read from the end of a log: some 600 lines."""
WORKS: Mapping[str, StageWork] = {CONVERSION_KEY: "convert", EVALUATION_KEY: "evaluate", EXPORT_KEY: "export"}
"""Key under `spec` of a record -> kind of work, for a run that trains nothing."""


def observe_local(entries: Iterable[IndexEntry], *, now: str) -> tuple[Observation, ...]:
    """Return one Observation per run on this machine that is in the index and whose folder exists. Never raises."""
    local = (entry for entry in entries if entry.on_this_machine and entry.output)
    return tuple(observation for entry in local if (observation := _observe_run(entry, now)) is not None)


def _observe_run(entry: IndexEntry, now: str) -> Observation | None:
    """Return the observation of the run; None if its folder was deleted, since the run no longer exists then."""
    folder = Path(entry.output) / entry.run_name
    own_folder = folder / FOLDER
    observation = Observation(
        run_name=entry.run_name,
        target=THIS_MACHINE,
        observed_at=now,
        mode=entry.mode,
        output=entry.output,
        steps=entry.steps or None,
    )
    try:
        record, alive = _record_and_life(own_folder)
    except (OSError, ValueError) as failed:
        why = f"{own_folder / LOCAL_RECORD}: {system_words(failed)}"
        return replace(observation, unread=(Unread(what="record", why=why),))
    if record is None or not record.attempts:
        return None
    recorded = Recorded(
        outcome=record.last.outcome,
        reason=record.last.reason,
        state_reason=record.last.state_reason or "",
        started_at=record.attempts[0].started_at or None,
        finished_at=record.last.finished_at,
        work=next((work for key, work in WORKS.items() if key in record.spec), None),
        alive=alive,
        number=record.last.number,
    )
    progress = _local_progress(record, now, saved_step=_saved_step(entry))
    return replace(observation, steps=record.steps or observation.steps, record=recorded, progress=progress)


def _record_and_life(own_folder: Path) -> tuple[Record | None, bool]:
    """Return the record, and whether a process does what it says. A process takes the lock before it writes, and
    releases it after it wrote the end: one that ends between the two looks was not killed, and its record says so now.
    """
    record = _read_record(own_folder / LOCAL_RECORD)
    while record is not None and record.attempts and record.last.outcome in UNENDED:
        if is_held(own_folder / LOCK):
            return record, True
        before, record = record, _read_record(own_folder / LOCAL_RECORD)
        if record == before:
            break
    return record, False


def _saved_step(entry: IndexEntry) -> int | None:
    with suppress(XsftError):
        return latest_step(LocalObjects(), output=entry.output, run_name=entry.run_name)
    return None


def _read_record(path: Path) -> Record | None:
    try:
        return read_record(read_bytes(path))
    except FileNotFoundError:
        return None


def _local_progress(record: Record, now: str, *, saved_step: int | None) -> Progress:
    """Return the progress from the log; from the record if it has more, as it does for the steps before the part of the
    log that is read.
    """
    progress = _logged_progress(Path(record.last.log), now) if record.last.log else None
    last = max(record.losses, default=None)
    if progress is None or (progress.step is None and last is not None):
        paced = progress or Progress(source="record", read_at=now)
        loss = record.losses[last] if last is not None else None
        progress = replace(paced, source="record", step=last, loss=loss)
    return replace(
        progress, saved_step=saved_step, resumed_from=record.last.resumed_from, resumed_order=record.last.order
    )


def _logged_progress(log: Path, now: str) -> Progress | None:
    """Return the progress that the log shows. Times in the lines have neither year nor time zone, so the file's
    modification time is used for the last line.
    """
    try:
        with open_regular(log) as file:
            size, written = os.fstat(file.fileno()).st_size, os.fstat(file.fileno()).st_mtime
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    lines = text.splitlines()[0 if size <= TAIL_BYTES else 1 :]
    progress = progress_of((LoggedLine(text=line) for line in lines), read_at=now, from_start=size <= TAIL_BYTES)
    return replace(progress, said_at=datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds"))


def lock_of(output: str, run_name: str) -> Path:
    """Return the path of the lock file that the process running this run holds."""
    return Path(output) / run_name / FOLDER / LOCK
