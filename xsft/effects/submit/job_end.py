"""Records beside a CPU job's run how the job ended: its JobSet is deleted some hours later, and a container that is
killed for memory records nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from xsft.effects.machine.chance import random_hex
from xsft.effects.machine.parallel import within
from xsft.effects.records.records import RecordStore, ref_of
from xsft.errors import Unreachable, XsftError
from xsft.problems import Problem, warning
from xsft.records.model import AttemptFacts, Receipt
from xsft.states.model import RunObject

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
    one is another JobSet's. Returns a warning if the record cannot be written.
    """
    try:
        records = store.read_run(output, run_name)
        own = (one for one in records if uid and one.last.uid == uid)
        last = next(own, records[-1] if records else None)
        if last is None or last.last.outcome not in OPEN or (uid and last.last.uid not in (uid, None)):
            return ()
        facts = AttemptFacts(outcome=outcome, at=store.now(), submitter=random_hex(8), reason=reason)
        return store.finish(ref_of(last), facts).problems
    except XsftError as failed:
        message = f"The end of {run_name} could not be recorded: {failed.message}"
        fix = "The result is at its path; the next call reads it there."
        return (warning("end-not-recorded", "", message, fix),)


def record_receipt(store: RecordStore, *, output: str, run_name: str, receipt: Receipt, uid: str) -> None:
    """Keep the receipt with the record of the attempt with that `uid`, whose outcome it does not change. An error in
    writing is ignored: the receipt was shown."""
    with suppress(XsftError):
        for one in store.read_run(output, run_name):
            if one.last.receipt is None and one.last.uid == uid:
                facts = AttemptFacts(outcome="unknown", at=store.now(), submitter=random_hex(8), receipt=receipt)
                store.finish(ref_of(one), facts)


def record_failed_jobs(
    store: RecordStore, failed: Sequence[tuple[RunObject, str]], *, limit_s: float = LIMIT_S
) -> None:
    """Record the end of each failed job, with its reason. An end that cannot be written within the limit is left out:
    no run depends on it, and the next conversion, export or evaluation records it.
    """
    if failed:
        with suppress(Unreachable):
            within(limit_s, lambda: _record_failed(store, failed))


def _record_failed(store: RecordStore, failed: Sequence[tuple[RunObject, str]]) -> None:
    for job, reason in failed:
        if job.output:
            at = {"output": job.output, "run_name": job.run_name, "uid": job.uid}
            record_job_end(store, **at, outcome="failed", reason=reason)
