"""Writing down beside the run that somebody cancelled it: the cluster forgets a JobSet that is deleted."""

from __future__ import annotations

import secrets

from xsft.effects.records import RecordStore, ref_of
from xsft.errors import XsftError
from xsft.problems import Problem, warning
from xsft.records.model import Facts, Record
from xsft.states.model import JobSet


def record_cancel(store: RecordStore, jobset: JobSet, *, user: str) -> tuple[Problem, ...]:
    """Warnings where it cannot be written; nothing for a JobSet that has no record of ours."""
    if not jobset.output:
        return ()
    try:
        record = _record(store.read_run(jobset.output, jobset.run_name), jobset)
        if record is None:
            return ()
        facts = Facts(
            outcome="cancelled", at=store.now(), submitter=secrets.token_hex(8), reason=f"cancelled by {user}"
        )
        return store.finish(ref_of(record), facts).problems
    except XsftError as failed:
        message = f"The JobSet is deleted, and its record does not say so: {failed.message}"
        return (
            warning("cancel-not-recorded", "", message, "xsft status may call the run unknown; nothing else is lost."),
        )


def _record(records: tuple[Record, ...], jobset: JobSet) -> Record | None:
    """Of the attempt with that UID; where a submitter died before it learnt the UID, of that JobSet's name."""
    by_uid = [one for one in records if one.attempts and one.last.uid == jobset.uid]
    by_name = [one for one in records if one.attempts and one.last.uid is None and one.last.jobset == jobset.name]
    return next(iter((*by_uid, *by_name)), None)
