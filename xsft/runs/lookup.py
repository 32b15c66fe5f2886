"""Find runs by exact name; a run that could not be read is never reported as missing. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import reduce

from msgspec import Struct

from xsft.base.errors import Unreachable, UsageError, XsftError
from xsft.base.names import attempt_number
from xsft.base.problems import Problem
from xsft.cluster.observation import Observation, Unread
from xsft.runs.folding import Classify, FoldedRun, fold, folder, named


class RunsRead(Struct, frozen=True, kw_only=True):
    """What the clusters and this machine answered at one time."""

    observations: tuple[Observation, ...] = ()
    problems: tuple[Problem, ...] = ()
    """One warning per cluster that did not answer."""
    answered: bool = True
    """Whether any source could be read."""
    whole: bool = True
    """Whether every source answered; then a run that was not found does not exist."""


class RunsAnswer(Struct, frozen=True, kw_only=True):
    """The runs at one time."""

    rows: tuple[FoldedRun, ...]
    problems: tuple[Problem, ...] = ()
    """As of `RunsRead`, as `whole`."""
    whole: bool = True
    neighbours: tuple[str, ...] = ()
    """Names of other runs, if a named one was not found."""


def answer_of(found: RunsRead, *, classify: Classify, now: str) -> RunsAnswer:
    """Return a row for each run that was read. Raises Unreachable if no source could be read."""
    if not found.answered:
        raise runs_unread(found.problems, "Nothing could be read")
    rows = fold(found.observations, classify=classify, now=now)
    return RunsAnswer(rows=rows, problems=found.problems, whole=found.whole)


def runs_unread(problems: Sequence[Problem], what: str) -> Unreachable:
    """Return Unreachable with all reasons and the first one's fix; with its id if waiting solves none of them."""
    reasons = (" ".join(p.message.split()).rstrip(".") for p in problems)
    why = "; ".join(dict.fromkeys(reasons)) or "no cluster answered"
    fix = next((p.fix for p in problems if p.fix), "Try again, or choose one place: --place NAME.")
    lasting = _lasting(problems)
    if lasting is None:
        return Unreachable(f"{what}: {why}.", fix=fix)
    return Unreachable(f"{what}: {why}.", fix=fix, id=lasting.id, again=lasting.again)


def _lasting(problems: Sequence[Problem]) -> Problem | None:
    """Return the first problem that only a person can solve, unless a problem may pass by itself."""
    if any(p.again == "helps" for p in problems):
        return None
    return next((p for p in problems if p.again == "never"), None)


def require_names(names: Sequence[str], found: RunsAnswer) -> None:
    """Raise `first_missing_run`, if a name is not found."""
    if failed := first_missing_run(names, found):
        raise failed


def first_missing_run(names: Sequence[str], found: RunsAnswer) -> XsftError | None:
    """Return `missing_run` for the first name that was not found, with the others; None if all were found."""
    failed = [missing_run(name, found) for name in dict.fromkeys(names) if not named(found.rows, name)]
    return reduce(lambda first, other: first.with_problems_of(other), failed) if failed else None


def missing_run(name: str, found: RunsAnswer) -> XsftError:
    """Return the error for a name that was not found. Prefixes never match: a command that acts must not guess."""
    if not found.whole:
        return runs_unread(found.problems, f"Run {name!r} was not found, but not every cluster could be read")
    names = {name for row in found.rows for one in row.attempts for name in one.names}
    known = sorted(names | set(found.neighbours))
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or [k for k in known if name and name in k][:3]
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return UsageError(
        f"No run is named exactly {name!r}.{meant}",
        fix="xsft status --all lists all runs that this machine can see; --place or --context select another cluster.",
        id="run-missing",
    )


def one_run(name: str, found: RunsAnswer) -> FoldedRun:
    """Return the only run with that name. Raises as `missing_run`, and UsageError if several have it."""
    hits = named(found.rows, name)
    if not hits:
        raise missing_run(name, found)
    if len(hits) > 1:
        where = "; ".join(_run_place(hit) for hit in hits)
        raise UsageError(
            f"{len(hits)} runs are named {name!r}: {where}.",
            fix=_which(hits),
            id="run-ambiguous",
        )
    return hits[0]


def _which(hits: Sequence[FoldedRun]) -> str:
    """Return how to choose among runs of one name: by folder on this machine, by place on clusters."""
    folders = [where for hit in hits if (where := folder(hit.row))]
    ways = [f"its folder instead of its name ({folders[0]})"] if folders else []
    if len(hits) > sum(hit.row.on_this_machine for hit in hits):
        ways.append("--place NAME, or --context NAME and --namespace NAME")
    return f"Choose one: {'; or '.join(ways)}."


def silent(seen: Observation) -> Unread | None:
    """Return why the run's cluster did not answer; None if it did, and for a run on this machine. Other data of such an
    observation is from an earlier call."""
    return next((one for one in seen.unread if one.what in ("jobsets", "object", "servers")), None)


def _run_place(hit: FoldedRun) -> str:
    row = hit.row
    if row.on_this_machine:
        return f"this machine, {folder(row) or 'in an unknown folder'}"
    if row.namespace is None:  # only its record is known
        return f"{f'JobSet {row.jobset}' if row.jobset else 'its JobSet'} of {row.cluster}, which is gone"
    return f"JobSet {row.jobset} in namespace {row.namespace} of {row.cluster}"


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
