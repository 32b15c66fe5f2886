"""Records beside a run how it ended, where its cluster loses that with the JobSet: a CPU job, which is deleted some
hours later and records nothing itself if it is killed for memory; and a run that was cancelled, or whose steps trained
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from msgspec.structs import replace

from xsft.base.errors import Unreachable, XsftError
from xsft.base.problems import Problem, warning
from xsft.cluster.observation import Observation, Recorded, RunObject, Status
from xsft.machine.parallel import call_within
from xsft.machine.paths import random_hex
from xsft.records.record import AttemptFacts, Outcome, Receipt, Record
from xsft.records.record_files import RecordStore, ref_of
from xsft.runs.rows import Row, is_worthless, text_of

OPEN = frozenset({"submitting", "created", "unknown"})
"""Outcomes after which the end is not recorded yet."""
LIMIT_S = 3.0
"""Maximum time that `xsft status` spends on recording; it does so once for each job."""


def record_job_end(
    store: RecordStore,
    *,
    output: str,
    run_name: str,
    outcome: Literal["completed", "failed"],
    reason: str | None = None,
    uid: str | None = None,
) -> tuple[Problem, ...]:
    """Record how the attempt with that `uid` ended, else the last one, unless its end is already recorded or the last
    one is another JobSet's. A job that was recorded as failed has completed if its files show so. Returns a warning if
    the record cannot be written.
    """
    try:
        records = store.read_run(output, run_name)
        same_uid = (record for record in records if uid and record.last.uid == uid)
        last = next(same_uid, records[-1] if records else None)
        if last is None or (uid and last.last.uid not in (uid, None)):
            return ()
        is_proved = outcome == "completed" and last.last.outcome == "failed"  # by the files of its result
        if last.last.outcome not in OPEN and not is_proved:
            return ()
        return _finish(store, last, outcome, reason=reason)
    except XsftError as failed:
        message = f"The end of {run_name} could not be recorded: {failed.message}"
        fix = "The result is at its path; the next call reads it there."
        return (warning("end-not-recorded", "", message, fix),)


def record_receipt(store: RecordStore, *, output: str, run_name: str, receipt: Receipt, uid: str) -> None:
    """Keep the receipt with the record of the attempt with that `uid`, whose outcome it does not change. An error in
    writing is ignored: the receipt was shown."""
    with suppress(XsftError):
        for record in store.read_run(output, run_name):
            if record.last.receipt is None and record.last.uid == uid:
                _finish(store, record, "unknown", receipt=receipt)


def record_failed_jobs(
    store: RecordStore, failed: Sequence[tuple[RunObject, str]], *, limit_s: float = LIMIT_S
) -> None:
    """Record the end of each failed job, with its reason. An end that cannot be written within the limit is left out:
    no run depends on it, and the next conversion, export or evaluation records it.
    """

    def record_all() -> None:
        for job, reason in failed:
            if job.output:
                record_job_end(
                    store, output=job.output, run_name=job.run_name, uid=job.uid, outcome="failed", reason=reason
                )

    if failed:
        with suppress(Unreachable):
            call_within(limit_s, record_all)


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
        return _finish(store, record, "cancelled", reason=f"cancelled by {user}")
    except XsftError as failed:
        message = f"The JobSet is deleted, but its record could not be updated: {failed.message}"
        fix = "xsft status may show the run as unknown; nothing else is lost."
        return (warning("cancel-not-recorded", "", message, fix),)


def cancelled(observation: Observation, jobset: RunObject, *, now: str) -> tuple[Observation, Status]:
    """Return the state of the run once its JobSet is deleted, to be saved on this machine."""
    record = Recorded(outcome="cancelled", jobset=jobset.name, uid=jobset.uid, finished_at=now)
    gone = replace(observation, jobset=None, was=jobset, record=record, last_known=None)
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
        reason = text_of(row.progress, row.reason)
        return _finish(store, record, "failed", reason=reason, state_reason=row.reason)
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
    by_uid = [record for record in records if uid and record.attempts and record.last.uid == uid]
    by_name = [
        record for record in records if record.attempts and record.last.uid is None and record.last.jobset == name
    ]
    return next(iter((*by_uid, *by_name)), None)


def _finish(store: RecordStore, record: Record, outcome: Outcome, **more: Any) -> tuple[Problem, ...]:
    """Record how the attempt ended. Returns warnings of the index."""
    return store.finish(
        ref_of(record), AttemptFacts(outcome=outcome, at=store.now(), submitter=random_hex(8), **more)
    ).problems
