"""Find a run's log: of which processes, from the cluster or from this machine, and how a followed run ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Protocol

from msgspec import Struct

from xsft.base.errors import Unknown, Unreachable, UsageError, XsftError
from xsft.base.lenient import Pause, ShowLine
from xsft.base.reporting import Reporter
from xsft.base.state_names import ENDED
from xsft.cluster.observation import Observation, RunObject
from xsft.machine import clock
from xsft.machine.deadline import Retries
from xsft.runs.classify import classify
from xsft.runs.log_roles import LogRequest, ProcessRole, chosen_roles, role_text
from xsft.runs.logstream import LogLine
from xsft.runs.lookup import FoldedRun, attempt_of, no_attempt, one_run, silent
from xsft.runs.read_all import RunAccess
from xsft.runs.rows import Row, row_of, state_line

SILENT = Reporter()

AGAIN_S = 5.0
"""Seconds between reads for a run that is to be followed, while its cluster does not answer."""


GONE = "and Kubernetes deletes a log with its pod"


GONE_FIX = "xsft compare plots the metrics beside its output; Cloud Logging may have the lines."


END_READS, END_PAUSE_S = 3, 1.0
"""Number of reads and the seconds between them: a cancel is recorded a moment after its JobSet is gone, and the last
step may be read after the log's end."""


class LogReader(Protocol):
    """Reads logs; described and implemented by `log_sources.Logs`."""

    def lines(
        self, observation: Observation, jobset: RunObject, roles: tuple[ProcessRole, ...], request: LogRequest, /
    ) -> Iterator[LogLine]: ...

    def local_lines(self, observation: Observation, request: LogRequest, /) -> Iterator[str]: ...


class FoundLog(Struct, frozen=True, kw_only=True):
    """The requested log."""

    seen: Observation
    lines: Iterator[str]
    names: tuple[str, ...] = ()
    """Names of its processes on a cluster."""


def found_lines(
    name: str,
    *,
    asked: LogRequest,
    runs: RunAccess,
    logs: LogReader,
    timestamps: bool,
    listener: Reporter = SILENT,
    pause: Pause = clock.pause,
) -> FoundLog:
    """Return the log. Raises UsageError for a name, an attempt, a slice or a host that does not exist, and for too many
    logs."""
    find = partial(_find_run, name, runs, listener)
    hit = _find_when_answered(find, name=name, say=listener.say, pause=pause) if asked.follow else find()
    if hit.row.on_this_machine:
        if asked.slice_index is not None or asked.host is not None or asked.since_s is not None:
            raise UsageError(
                "A run on this machine is one process, and its lines have no timestamps.",
                fix="Omit --slice, --host and --since; --tail N shows the last lines.",
            )
        return FoundLog(seen=hit.seen, lines=logs.local_lines(hit.seen, asked))
    observation = attempt_of(hit, name=name, attempt=asked.attempt)
    if observation is None or (asked.attempt is not None and observation.jobset is None):
        raise no_attempt(hit, asked.attempt or 0, gone=GONE, fix=GONE_FIX)
    if mute := silent(observation):
        raise Unreachable(
            f"The cluster of {observation.run_name} does not answer: {mute.clause}.", fix="Try again later."
        )
    jobset = observation.jobset
    if jobset is None:
        raise Unknown(f"{observation.run_name} no longer has a JobSet, {GONE}.", fix=GONE_FIX)
    roles = roles_for(jobset, asked)
    lines = _texts(
        logs.lines(observation, jobset, roles, asked), jobset=jobset, prefixed=len(roles) > 1, timestamps=timestamps
    )
    return FoundLog(seen=observation, lines=lines, names=tuple(role_text(jobset, role) for role in roles))


def _find_run(name: str, runs: RunAccess, listener: Reporter) -> FoldedRun:
    with listener.waiting("logs", "asking the clusters") as say:
        runs.listen(say)
        return one_run(name, runs.look())


def _find_when_answered(find: Callable[[], FoldedRun], *, name: str, say: ShowLine, pause: Pause) -> FoldedRun:
    """Return the run to follow; wait while its cluster does not answer for a while."""
    last_reason, retries = "", Retries(repeat(AGAIN_S), sleep=pause)
    while True:
        try:
            hit = find()
            mute = silent(hit.seen)
            if mute is None or mute.again != "helps":
                return hit
            why = f"The cluster of {name} does not answer: {mute.clause}."
        except Unreachable as failed:
            if failed.again != "helps":
                raise
            why = failed.message
        if why != last_reason:
            last_reason = why
            say(f"{why} Still waiting.")
        retries.again()


def roles_for(jobset: RunObject, request: LogRequest) -> tuple[ProcessRole, ...]:
    roles = chosen_roles(jobset, slice_index=request.slice_index, host=request.host, every=request.every)
    if len(roles) > request.at_most:
        raise UsageError(
            f"{len(roles)} logs of {jobset.name} requested; the limit is {request.at_most}.",
            fix=f"Choose one: --slice N --host N; or raise the limit: --streams {len(roles)}.",
        )
    return roles


def _texts(lines: Iterator[LogLine], *, jobset: RunObject, prefixed: bool, timestamps: bool) -> Iterator[str]:
    for line in lines:
        time = f"{line.at} " if timestamps and line.at else ""
        who = f"{role_text(jobset, line.role)} | " if prefixed else ""
        yield f"{time}{who}{line.text}"


def end_text(observation: Observation, *, runs: RunAccess, pause: Pause = clock.pause) -> str | None:
    """Return how the followed attempt ended; None if no cluster answers, for the log was shown anyway."""
    row = None
    for again in range(END_READS):
        if again:
            pause(END_PAUSE_S)
        row = _current_row(observation, runs) or row
        if row is not None and row.state in ENDED:
            break
    if row is None:
        return None
    why = "" if row.state in ("succeeded", "cancelled") else f": xsft why {row.run_name}"
    return f"-- {state_line(row)}{why} --"


def _current_row(observation: Observation, runs: RunAccess) -> Row | None:
    try:
        rows = runs.look().rows
    except XsftError:
        return None
    now = runs.now()
    matching = (attempt for hit in rows for attempt in hit.attempts if _is_it(attempt, observation))
    return next((row_of(attempt, classify(attempt), now=now) for attempt in matching), None)


def _is_it(other: Observation, observation: Observation) -> bool:
    if observation.jobset is None:
        return (other.target, other.run_name) == (observation.target, observation.run_name)
    return other.uid == observation.jobset.uid
