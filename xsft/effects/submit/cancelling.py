"""Records the end of a run that its cluster loses with the JobSet: that it was cancelled, or that its steps trained
nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from xsft.effects.machine.chance import random_hex
from xsft.effects.records.records import RecordStore, ref_of
from xsft.errors import XsftError
from xsft.problems import Problem, warning
from xsft.records.model import AttemptFacts, Record
from xsft.states.model import Observation, Recorded, RunObject, Status
from xsft.states.rows import Row
from xsft.states.worth import is_worthless, text_of


def record_cancel(store: RecordStore, jobset: RunObject, *, user: str) -> tuple[Problem, ...]:
    """Record that the run was cancelled. Returns warnings if the record cannot be written, and nothing for a JobSet
    that has no record of xsft.
    """
    if not jobset.output:
        return ()
    try:
        record = _record(store.read_run(jobset.output, jobset.run_name), uid=jobset.uid, name=jobset.name)
        if record is None:
            return ()
        facts = AttemptFacts(
            outcome="cancelled", at=store.now(), submitter=random_hex(8), reason=f"cancelled by {user}"
        )
        return store.finish(ref_of(record), facts).problems
    except XsftError as failed:
        message = f"The JobSet is deleted, but its record could not be updated: {failed.message}"
        return (
            warning(
                "cancel-not-recorded", "", message, "xsft status may show the run as unknown; nothing else is lost."
            ),
        )


def cancelled(seen: Observation, jobset: RunObject, *, now: str) -> tuple[Observation, Status]:
    """Return the state of the run once its JobSet is deleted, to be saved on this machine."""
    record = Recorded(outcome="cancelled", jobset=jobset.name, uid=jobset.uid, finished_at=now)
    gone = replace(seen, jobset=None, was=jobset, record=record, last_known=None)
    return gone, Status(state="cancelled", evidence=("record",))


def record_worthless(store: RecordStore, row: Row) -> tuple[Problem, ...]:
    """Record that the run's steps trained nothing; else it would count as finished when only its last checkpoint is
    left. Warnings as in `record_cancel`.
    """
    if not row.on_cluster or not row.output or not is_worthless(row.reason):
        return ()
    try:
        record = _record(store.read_run(row.output, row.run_name), uid=row.uid, name=row.jobset)
        if record is None or record.last.state_reason == row.reason:
            return ()
        facts = AttemptFacts(
            outcome="failed",
            at=store.now(),
            submitter=random_hex(8),
            reason=text_of(row.progress, row.reason),
            state_reason=row.reason,
        )
        return store.finish(ref_of(record), facts).problems
    except XsftError as failed:
        message = f"The failure could not be written to the run's record: {failed.message}"
        fix = (
            "If you submit it again, xsft may report it as finished because of its last checkpoint; nothing "
            "else is lost."
        )
        return (warning("end-not-recorded", "", message, fix),)


def _record(records: tuple[Record, ...], *, uid: str | None, name: str | None) -> Record | None:
    """Return the record of the attempt with that UID; if a submitter died before it read the UID, the one with that
    JobSet's name.
    """
    by_uid = [one for one in records if uid and one.attempts and one.last.uid == uid]
    by_name = [one for one in records if one.attempts and one.last.uid is None and one.last.jobset == name]
    return next(iter((*by_uid, *by_name)), None)
