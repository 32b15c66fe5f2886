"""Fold the attempts of each run into one, and find runs by exact name. Pure.

A run that could not be read is never reported as missing.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Protocol

from msgspec import Struct

from xsft.base.amounts import seconds_between
from xsft.base.errors import Unreachable, UsageError, XsftError
from xsft.base.names import attempt_number
from xsft.base.problems import Problem
from xsft.base.state_names import ENDED, RUNNING, STATES, State
from xsft.cluster.observation import Observation, Status, Unread
from xsft.runs.rows import Row, created_at, row_of

DAY_S = 24 * 3600.0
"""Runs that ended longer ago are not shown unless requested, and nothing is read of them."""
WEEK_S = 7 * DAY_S
"""The same for runs that were submitted longer ago and are not on their cluster."""


class Classify(Protocol):
    """Return the state of an attempt: `runs.classify.classify`."""

    def __call__(self, observation: Observation, /) -> Status: ...


class RowFilter(Struct, frozen=True, kw_only=True):
    """The rows to show. None and empty: all."""

    runs: tuple[str, ...] = ()
    """Exact run names, JobSet names or folders of runs on this machine."""
    states: tuple[str, ...] = ()
    """Words of `WORDS`; a row matches any of them."""
    mode: str | None = None
    everything: bool = False
    """Include runs that ended more than a day ago."""


class FoldedRun(Struct, frozen=True, kw_only=True):
    """A row and the observations it was made from."""

    row: Row
    seen: Observation
    """The observation of the attempt that represents the run."""
    status: Status
    attempts: tuple[Observation, ...]
    """The observations of all attempts, the oldest first."""


def fold(observations: Iterable[Observation], *, classify: Classify, now: str) -> tuple[FoldedRun, ...]:
    """Return one row per run, from its newest attempt; active runs first, then the newest first."""
    rows = [_newest(attempts, classify=classify, now=now) for attempts in _runs(observations)]
    newest_first = sorted(rows, key=lambda s: (s.row.created_at or "", s.row.run_name), reverse=True)
    return tuple(sorted(newest_first, key=lambda s: s.row.ended))


def chosen(rows: Iterable[FoldedRun], wanted: RowFilter) -> tuple[FoldedRun, ...]:
    """Return the rows to show. Named runs are shown whatever their age; the other filters apply to all."""
    every_run = tuple(rows)
    picked = {id(run) for name in wanted.runs for run in named(every_run, name)}
    named_runs = (run for run in every_run if not wanted.runs or id(run) in picked)
    return tuple(run for run in named_runs if _matches(run.row, wanted))


def named(rows: Iterable[FoldedRun], name: str) -> tuple[FoldedRun, ...]:
    """Return the runs with exactly that name, or the run on this machine with that folder; else those with a JobSet of
    that name."""
    every_run = tuple(rows)
    runs = tuple(run for run in every_run if name in (run.row.run_name, folder(run.row)))
    return runs or tuple(run for run in every_run if any(a.jobset and a.jobset.name == name for a in run.attempts))


def folder(row: Row) -> str | None:
    """Return `<output>/<run name>` of a run on this machine."""
    return f"{row.output.rstrip('/')}/{row.run_name}" if row.on_this_machine and row.output else None


def _matches(row: Row, wanted: RowFilter) -> bool:
    if wanted.states and not any(matches(row.state, word) for word in wanted.states):
        return False
    if wanted.mode and row.mode != wanted.mode:
        return False
    return bool(wanted.runs) or wanted.everything or _recent(row)


def _recent(row: Row) -> bool:
    """Return whether the run is active or ended less than a day ago; if it has no JobSet and nothing is known, whether
    it was submitted this week."""
    if row.state == "unknown" and row.namespace is None:
        return (row.age_s or 0.0) < WEEK_S
    if not row.ended:
        return True
    # all times are from the cluster's clock; an end without a time counts from the start of the run
    lasted = seconds_between(row.created_at, row.ended_at or row.created_at)
    return lasted is None or row.age_s is None or row.age_s - lasted < DAY_S


def _runs(observations: Iterable[Observation]) -> list[list[Observation]]:
    """Group observations by run. Runs with one name on two clusters, in two namespaces or in two outputs on this
    machine, or created by xsft and by another tool, are different runs. An attempt whose JobSet is gone belongs to the
    runs of its name that exist."""
    runs: dict[tuple[str, ...], list[Observation]] = defaultdict(list)
    gone: list[Observation] = []
    for attempt in observations:
        if attempt.jobset is None:
            gone.append(attempt)
            continue
        made_by = "" if attempt.jobset.ours else attempt.jobset.name
        runs[(*attempt.shared_name, attempt.jobset.namespace, made_by)].append(attempt)
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key in runs:
        first.setdefault(key[:3], key)
    for attempt in gone:
        runs[first.setdefault(attempt.shared_name, attempt.shared_name)].append(attempt)
    return list(runs.values())


def _newest(attempts: list[Observation], *, classify: Classify, now: str) -> FoldedRun:
    """Return the attempt that represents the run: one that may be running, else the newest."""
    judged = [(classify(attempt), attempt) for attempt in attempts]
    ordered = sorted(judged, key=lambda pair: (_may_live(*pair), created_at(pair[1]) or ""))
    status, observation = ordered[-1]
    row = row_of(observation, status, now=now, attempts=len(attempts))
    in_turn = sorted(attempts, key=lambda attempt: created_at(attempt) or "")
    return FoldedRun(row=row, seen=observation, status=status, attempts=tuple(in_turn))


def _may_live(status: Status, observation: Observation) -> bool:
    """Return whether the attempt may be running: true if its cluster does not answer, false if it ended in any way."""
    if status.state == "unknown":
        return any(unread.what == "jobsets" for unread in observation.unread)
    return status.state not in ENDED


def matches(state: State, word: str) -> bool:
    """Return whether a filter's word includes this state. Raises KeyError for a word that is not in WORDS."""
    match word:
        case "running":
            return state in RUNNING
        case "active":
            return state not in ENDED  # an `unknown` run may still use slices
        case "ended":
            return state in ENDED
        case _ if word in STATES:
            return state == word
        case _:
            raise KeyError(word)


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


def answer_of(read: RunsRead, *, classify: Classify, now: str) -> RunsAnswer:
    """Return a row for each run that was read. Raises Unreachable if no source could be read."""
    if not read.answered:
        raise runs_unread(read.problems, "Nothing could be read")
    rows = fold(read.observations, classify=classify, now=now)
    return RunsAnswer(rows=rows, problems=read.problems, whole=read.whole)


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


def require_names(names: Sequence[str], answer: RunsAnswer) -> None:
    """Raise `first_missing_run`, if a name is not found."""
    if failed := first_missing_run(names, answer):
        raise failed


def first_missing_run(names: Sequence[str], answer: RunsAnswer) -> XsftError | None:
    """Return `missing_run` for the first name that was not found, with the others; None if all were found."""
    failed = [missing_run(name, answer) for name in dict.fromkeys(names) if not named(answer.rows, name)]
    return reduce(lambda first, other: first.with_problems_of(other), failed) if failed else None


def missing_run(name: str, answer: RunsAnswer) -> XsftError:
    """Return the error for a name that was not found. Prefixes never match: a command that acts must not guess."""
    if not answer.whole:
        return runs_unread(answer.problems, f"Run {name!r} was not found, but not every cluster could be read")
    names = {name for row in answer.rows for attempt in row.attempts for name in attempt.names}
    every_name = sorted({*names, *answer.neighbours} - {name})  # an index may list a run that no source shows
    close = (
        difflib.get_close_matches(name, every_name, n=3, cutoff=0.5)
        or [k for k in every_name if name and name in k][:3]
    )
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    return UsageError(
        f"No run is named exactly {name!r}.{meant}",
        fix="xsft status --all lists all runs that this machine can see; --place or --context select another cluster.",
        id="run-missing",
    )


def one_run(name: str, answer: RunsAnswer) -> FoldedRun:
    """Return the only run with that name. Raises as `missing_run`, and UsageError if several have it."""
    hits = named(answer.rows, name)
    if not hits:
        raise missing_run(name, answer)
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


def silent(observation: Observation) -> Unread | None:
    """Return why the run's cluster did not answer; None if it did, and for a run on this machine. Other data of such an
    observation is from an earlier call."""
    return next((source for source in observation.unread if source.what in ("jobsets", "object", "servers")), None)


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
        by_name = {other.jobset.name: other for other in hit.attempts if other.jobset}
        return by_name.get(name, hit.seen) if name != hit.row.run_name else hit.seen
    matching = [other for other in hit.attempts if number_of(other) == attempt]
    return next((other for other in matching if other.jobset is not None), matching[0] if matching else None)


def number_of(observation: Observation) -> int | None:
    """Return the attempt's number by its JobSet's name, else by its record; None for a JobSet that xsft did not
    name.
    """
    if observation.jobset_name is None:
        return observation.record.number if observation.record else None
    return attempt_number(observation.jobset_name, first=observation.run_name)


def no_attempt(hit: FoldedRun, attempt: int, *, gone: str, fix: str) -> UsageError:
    """Return the error for an attempt that never existed, or is gone. `gone`: what its absence means for the request;
    `fix`: what to do."""
    run = hit.row.run_name
    has_jobset = {
        number: other.jobset is not None for other in hit.attempts if (number := number_of(other)) is not None
    }
    if attempt in has_jobset or 0 < attempt < max(has_jobset, default=0):
        return UsageError(f"Attempt {attempt} of {run} has no JobSet, {gone}.", fix=fix)
    numbers = ", ".join(f"{number}{'' if is_there else ' (gone)'}" for number, is_there in sorted(has_jobset.items()))
    message = f"{run} has no attempt {attempt}. Known submissions: {numbers or 'none'}."
    return UsageError(message, fix="Pass one of them to --attempt, or omit it for the newest.")
