"""How the runs on this machine are: their records, the end of their logs, and whether anybody holds their locks."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xsft.effects.local.stop import holder
from xsft.effects.machine.regular import open_regular, read_bytes
from xsft.effects.records.index import IndexEntry
from xsft.effects.records.objects import LocalObjects
from xsft.effects.records.records import FOLDER
from xsft.effects.records.saved import latest_step
from xsft.errors import XsftError
from xsft.records import LOCAL_RECORD
from xsft.states.model import Observation, Progress, Recorded, Unread
from xsft.trainers.progress import Said, progress_of

if TYPE_CHECKING:
    from xsft.records.model import Record

LOCK = "lock"
"""`effects.local_folder.RunFolder.lock`."""
TAIL_BYTES = 128 * 1024
"""Of the log: some 600 lines."""
GOING = frozenset({"submitting", "created", "running"})
"""Outcomes of a record that tells no end."""


def observe_local(entries: Iterable[IndexEntry], *, now: str) -> tuple[Observation, ...]:
    """One per run on this machine that the index knows and whose folder is there. Never raises."""
    local = (entry for entry in entries if entry.on_this_machine and entry.output)
    return tuple(seen for entry in local if (seen := _observed(entry, now)) is not None)


def _observed(entry: IndexEntry, now: str) -> Observation | None:
    """None where the folder was deleted: then there is no such run any more."""
    folder = Path(entry.output) / entry.run_name
    own = folder / FOLDER
    seen = Observation(
        run_name=entry.run_name,
        target="local",
        observed_at=now,
        mode=entry.mode,
        output=entry.output,
        steps=entry.steps or None,
    )
    try:
        record = _record(own / LOCAL_RECORD)
    except (OSError, ValueError) as failed:
        why = f"{own / LOCAL_RECORD}: {getattr(failed, 'strerror', None) or failed}"
        return replace(seen, unread=(Unread(what="record", why=why),))
    if record is None or not record.attempts:
        return None
    going = record.last.outcome in GOING
    recorded = Recorded(
        outcome=record.last.outcome,
        reason=record.last.reason,
        state_reason=record.last.state_reason or "",
        started_at=record.attempts[0].started_at or None,
        finished_at=record.last.finished_at,
        alive=going and is_held(own / LOCK),
        number=record.last.number,
    )
    progress = _progress(record, now, saved_step=_saved(entry))
    return replace(seen, steps=record.steps or seen.steps, record=recorded, progress=progress)


def _saved(entry: IndexEntry) -> int | None:
    with suppress(XsftError):
        return latest_step(LocalObjects(), output=entry.output, run_name=entry.run_name)
    return None


def _record(path: Path) -> Record | None:
    from xsft.records.document import read_record

    try:
        return read_record(read_bytes(path))
    except FileNotFoundError:
        return None


def _progress(record: Record, now: str, *, saved_step: int | None) -> Progress:
    """By the log; by the record where that knows more, which it does of the steps before the log's end."""
    said = _logged(Path(record.last.log), now) if record.last.log else None
    last = max(record.losses, default=None)
    if said is None or (said.step is None and last is not None):
        paced = said or Progress(source="record", read_at=now)
        loss = record.losses[last] if last is not None else None
        said = replace(paced, source="record", step=last, loss=loss)
    return replace(said, saved_step=saved_step, resumed_from=record.last.resumed_from, resumed_order=record.last.order)


def _logged(log: Path, now: str) -> Progress | None:
    """The lines' own times name neither year nor zone; the file's is the last line's."""
    try:
        with open_regular(log) as file:
            size, written = os.fstat(file.fileno()).st_size, os.fstat(file.fileno()).st_mtime
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    lines = text.splitlines()[0 if size <= TAIL_BYTES else 1 :]
    said = progress_of((Said(text=line) for line in lines), read_at=now, from_start=size <= TAIL_BYTES)
    return replace(said, said_at=datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds"))


def is_held(lock: Path) -> bool:
    """Whether a process holds the run. The kernel's list is asked first: trying the lock takes it for a moment, and a
    submission at that very moment would be refused.
    """
    if holder(lock) is not None:
        return True
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
