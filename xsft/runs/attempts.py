"""The submission of a run that a command is about: `--attempt N`, or the JobSet that was named. Pure."""

from __future__ import annotations

from xsft.base.errors import UsageError
from xsft.base.names import attempt_number
from xsft.cluster.observation import Observation
from xsft.runs.folding import FoldedRun


def attempt_of(hit: FoldedRun, *, name: str, attempt: int | None) -> Observation | None:
    """Return the requested submission, counted from 1, even if its JobSet is gone; a JobSet's name selects its own
    submission.

    None if that submission was not read.
    """
    if attempt is None:
        by_name = {one.jobset.name: one for one in hit.attempts if one.jobset}
        return by_name.get(name, hit.seen) if name != hit.row.run_name else hit.seen
    matching = [one for one in hit.attempts if number_of(one) == attempt]
    return next((one for one in matching if one.jobset is not None), matching[0] if matching else None)


def number_of(seen: Observation) -> int | None:
    """Return the attempt's number by its JobSet's name, else by its record; None for a JobSet that xsft did not
    name.
    """
    if seen.jobset_name is None:
        return seen.record.number if seen.record else None
    return attempt_number(seen.jobset_name, first=seen.run_name)


def no_attempt(hit: FoldedRun, attempt: int, *, gone: str, fix: str) -> UsageError:
    """Return the error for an attempt that never existed, or is gone. `gone`: what its absence means for the request;
    `fix`: what to do."""
    run = hit.row.run_name
    has_jobset = {number: one.jobset is not None for one in hit.attempts if (number := number_of(one)) is not None}
    if attempt in has_jobset or 0 < attempt < max(has_jobset, default=0):
        return UsageError(f"Attempt {attempt} of {run} has no JobSet, {gone}.", fix=fix)
    known = ", ".join(f"{number}{'' if is_there else ' (gone)'}" for number, is_there in sorted(has_jobset.items()))
    message = f"{run} has no attempt {attempt}. Known submissions: {known or 'none'}."
    return UsageError(message, fix="Pass one of them to --attempt, or omit it for the newest.")
