"""Whose is a JobSet that bears a name of this run? Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from xsft.errors import Refused
from xsft.identity import Seen, World
from xsft.records.model import Record


def recognised(seen: Seen, *, run_name: str, records: Sequence[Record], as_told: bool) -> Seen:
    """A JobSet without labels is of this run where a record names its UID, or where a submission through xpk was begun
    and the JobSet is what xpk was told (`as_told`): its submitter was killed before it could write more.
    """
    if seen.run_name is not None:
        return seen
    ours = [r.last for r in records if r.last.jobset == seen.name]
    known = [one for one in ours if one.uid == seen.uid or (one.outcome == "submitting" and as_told)]
    return replace(seen, run_name=run_name, digest=known[-1].spec_digest) if known else seen


def pass_over(seen: Seen, *, attempt: int, world: World) -> World:
    """What is known once `seen`, another's, has turned out to have the name of this attempt: it may be of a run that is
    itself named `run-2`. It is left alone, and the attempt takes the next name.

    Raises Refused for the first attempt, whose name is the run's, and for a JobSet that may be this run's after all.
    """
    _refuse_unclear(seen, attempt=attempt, world=world)
    if attempt == 1:
        raise Refused(
            f"the name {seen.name} is taken by a JobSet (uid {seen.uid}) of {_owner(seen)}.", fix=_fix(seen, world)
        )
    return replace(world, passed_over=world.passed_over | {attempt})


def _refuse_unclear(seen: Seen, *, attempt: int, world: World) -> None:
    """Passing over what is ours would make a second run, which saves into the same folder."""
    begun = (r for r in world.records if r.last.number == attempt and r.last.outcome in ("submitting", "unknown"))
    if seen.run_name is None and any(begun):
        raise Refused(
            f"attempt {attempt} was begun and what came of it was never recorded, and the JobSet {seen.name} (uid"
            f" {seen.uid}) bears no label: it may be that attempt, or somebody else's.",
            fix=f"Look whose it is (kubectl get jobset {seen.name} -o yaml); submit again when it is gone.",
            id="jobset-unclear",
        )


def _owner(seen: Seen) -> str:
    return f"the run {seen.run_name}" if seen.run_name else "somebody else; xsft did not make it"


def _fix(seen: Seen, world: World) -> str:
    if world.latest_step is None:
        return "Take another name: --set name=…, or run_name_suffix: date."
    return (
        f"Submit it again when that JobSet is gone (kubectl get jobset {seen.name}): it goes on from step"
        f" {world.latest_step}, which is saved. Under another name it would begin at step 0."
    )
