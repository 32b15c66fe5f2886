"""The owner of a JobSet that has a name of this run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from xsft.base.errors import Refused
from xsft.launch.identity import LiveJobSet, RunHistory
from xsft.records.record import Record


def recognise_jobset(seen: LiveJobSet, *, run_name: str, records: Sequence[Record], as_told: bool) -> LiveJobSet:
    """Return the JobSet with its run. One without labels belongs to this run if a record names its UID, or if a
    submission through xpk was begun and the JobSet equals xpk's command line (`as_told`): its submitter was killed
    before it could write more."""
    if seen.run_name is not None:
        return seen
    ours = [r.last for r in records if r.last.jobset == seen.name]
    known = [one for one in ours if one.uid == seen.uid or (one.outcome == "submitting" and as_told)]
    return replace(seen, run_name=run_name, digest=known[-1].spec_digest) if known else seen


def pass_over(seen: LiveJobSet, *, attempt: int, world: RunHistory) -> RunHistory:
    """Return the history after `seen` proved to be another run's with the name of this attempt, e.g. of a run that is
    itself named `run-2`. It is left alone, and the attempt takes the next name.

    Raises Refused for the first attempt, whose name is the run's, and for a JobSet that may be this run's after all.
    """
    _refuse_unclear(seen, attempt=attempt, world=world)
    if attempt == 1:
        raise Refused(
            f"the name {seen.name} is taken by a JobSet (uid {seen.uid}) of {_owner_text(seen)}.", fix=_fix(seen, world)
        )
    return replace(world, passed_over=world.passed_over | {attempt})


def _refuse_unclear(seen: LiveJobSet, *, attempt: int, world: RunHistory) -> None:
    """Raise Refused if the JobSet may be this run's: skipping it would make a second run, which saves into the same
    folder."""
    begun = (r for r in world.records if r.last.number == attempt and r.last.outcome in ("submitting", "unknown"))
    if seen.run_name is None and any(begun):
        raise Refused(
            f"attempt {attempt} was submitted without a recorded result, and the JobSet {seen.name} (uid "
            f"{seen.uid}) has no label: it may be that attempt, or another user's.",
            fix=f"Check its owner (kubectl get jobset {seen.name} -o yaml), and resubmit once it is gone.",
            id="jobset-unclear",
        )


def _owner_text(seen: LiveJobSet) -> str:
    return f"the run {seen.run_name}" if seen.run_name else "another user; xsft did not create it"


def _fix(seen: LiveJobSet, world: RunHistory) -> str:
    if world.latest_step is None:
        return "Use another name: --set name=…, or run_name_suffix: date."
    return (
        f"Submit it again when that JobSet is gone (kubectl get jobset {seen.name}): it resumes from the saved "
        f"step {world.latest_step}. Under another name it would start at step 0."
    )
