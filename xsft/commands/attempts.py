"""Which submission of a run a command is about: `--attempt N`, or the JobSet that was named. Pure."""

from __future__ import annotations

from xsft.errors import UsageError
from xsft.naming import attempt_of_jobset
from xsft.states.folding import Seen
from xsft.states.model import Observation


def attempt_of(hit: Seen, *, name: str, attempt: int | None) -> Observation | None:
    """The submission that is asked for, from 1, its JobSet there or gone; one that is named by its JobSet is that one.
    None where nothing of it was read.
    """
    if attempt is None:
        by_name = {one.jobset.name: one for one in hit.attempts if one.jobset}
        return by_name.get(name, hit.seen) if name != hit.row.run_name else hit.seen
    there = [one for one in hit.attempts if number_of(one) == attempt]
    return next((one for one in there if one.jobset is not None), there[0] if there else None)


def number_of(seen: Observation) -> int | None:
    """By its JobSet's name, else by its record; None for a JobSet of another make."""
    name = seen.jobset.name if seen.jobset else (seen.record.jobset if seen.record else None)
    if name is None:
        return seen.record.number if seen.record else None
    return attempt_of_jobset(name, run_name=seen.run_name)


def no_attempt(hit: Seen, asked: int, *, gone: str, fix: str) -> UsageError:
    """For one that never was, or that was; `gone` and `fix`: what that means for what was asked, and what to do."""
    run = hit.row.run_name
    there = {number: one.jobset is not None for one in hit.attempts if (number := number_of(one)) is not None}
    if asked in there or 0 < asked < max(there, default=0):
        return UsageError(f"Attempt {asked} of {run} has no JobSet (any more), {gone}.", fix=fix)
    known = ", ".join(f"{number}{'' if is_there else ' (gone)'}" for number, is_there in sorted(there.items()))
    message = f"{run} has no attempt {asked}. Submissions that are known: {known or 'none'}."
    return UsageError(message, fix="Give --attempt one of them, or leave it out for the newest.")
