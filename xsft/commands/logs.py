"""`xsft logs RUN`: what the process that prints steps has said, or others where they are named."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from xsft.commands.durations import duration
from xsft.commands.log_request import STREAMS, LogRequest
from xsft.commands.run_arguments import a_count, add_attempt, add_run, add_where, where_text

if TYPE_CHECKING:
    from xsft.effects.runs.logs import LogLine, Role
    from xsft.effects.runs.runs import Runs
    from xsft.run_query import RunQuery
    from xsft.states.folding import Seen
    from xsft.states.model import JobSet, Observation

AGAIN_S = 5.0
"""Between two looks for a run that is to be followed, while its cluster does not answer."""

GONE = "and Kubernetes forgets a log with its pod"
GONE_FIX = "xsft compare draws what the metrics beside its output hold; Cloud Logging may have the lines."

EPILOG = (
    "Without --slice, --host or --all: the one process that prints steps, which is host 0 of slice 0, or the head under"
    f" Pathways. --all says how many logs that is and opens more than {STREAMS} only with --streams. Lines of several"
    " processes are merged by time, each with its slice and host. -f goes on through restarts until the run has ended;"
    " restarts, what is waited for and how the run ended are told on stderr. Exit status 0 however it ended: xsft wait"
    " has one for each end."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended; Ctrl-C ends it")
    parser.add_argument("--slice", type=a_count, metavar="N", help="of this slice, from 0")
    parser.add_argument("--host", type=a_count, metavar="N", help="of this host of the slice, from 0 (default: 0)")
    parser.add_argument("--all", action="store_true", help="of all processes, or of all hosts of --slice")
    parser.add_argument(
        "--streams", type=a_count, default=STREAMS, metavar="N", help="at most so many logs at once (default: 8)"
    )
    parser.add_argument("--since", type=duration, metavar="TIME", help="only what is newer, e.g. 10m")
    parser.add_argument("--tail", type=a_count, metavar="N", help="only the last N lines of each process")
    add_attempt(parser)
    parser.add_argument("--timestamps", action="store_true", help="with the time of each line")
    parser.add_argument(
        "--raw", action="store_true", help="control characters and colours too, which may act on the terminal"
    )
    add_where(parser)


def run(args: argparse.Namespace) -> int:
    from xsft.commands.run_sources import runs_of
    from xsft.commands.waiting import told
    from xsft.effects.machine import clock
    from xsft.effects.machine.streams import with_controls
    from xsft.effects.submit.interrupts import goes_on, when_interrupted
    from xsft.states.moments import before

    runs = runs_of(args, args.run)
    asked = LogRequest(
        slice_index=args.slice,
        host=args.host,
        every=args.all,
        at_most=args.streams,
        since=None if args.since is None else before(clock.now(), args.since),
        tail=args.tail,
        follow=args.follow,
        attempt=args.attempt,
    )
    world = world_of(runs, say=told)
    with when_interrupted(goes_on(args.run, where=where_text(args)) if args.follow else ""):
        stdout = with_controls(sys.stdout) if args.raw else sys.stdout
        return logs(args.run, asked=asked, world=world, timestamps=args.timestamps, stdout=stdout)


class World(Struct, frozen=True, kw_only=True):
    query: RunQuery
    lines: Callable[[Observation, JobSet, tuple[Role, ...], LogRequest], Iterator[LogLine]]
    """Raises Unreachable where a log cannot be read."""
    local_lines: Callable[[Observation, LogRequest], Iterator[str]]
    """Raises EnvironmentMissing where the file cannot be read."""
    say: Callable[[str], None] = lambda _line: None
    """Hears how a run that was followed has ended."""
    pause: Callable[[float], None] = lambda _seconds: None


def world_of(runs: Runs, *, say: Callable[[str], None] = lambda _line: None) -> World:
    """The real one."""
    from xsft.commands.log_sources import Logs
    from xsft.effects.machine import clock
    from xsft.run_query import query_of

    sources = Logs(runs=runs, trouble=say)
    return World(query=query_of(runs), lines=sources.lines, local_lines=sources.local_lines, say=say, pause=clock.pause)


class Found(Struct, frozen=True, kw_only=True):
    """The log that was asked for."""

    seen: Observation
    lines: Iterator[str]
    names: tuple[str, ...] = ()
    """Of its processes on a cluster."""


def logs(name: str, *, asked: LogRequest, world: World, timestamps: bool, stdout: TextIO) -> int:
    """0. Raises as `found_lines`."""
    found = found_lines(name, asked=asked, world=world, timestamps=timestamps)
    if not write_lines(found.lines, stdout) and found.names:
        sys.stderr.write(f"nothing is there of {', '.join(found.names[:3])}{_why_nothing(asked)}\n")
    return _ended(found.seen, asked=asked, world=world)


def found_lines(name: str, *, asked: LogRequest, world: World, timestamps: bool) -> Found:
    """Raises UsageError for a name, an attempt, a slice or a host that is not there, and for too many logs."""
    from xsft.commands.attempts import attempt_of, no_attempt
    from xsft.commands.log_roles import role_text

    hit = _followed(name, world) if asked.follow else _found(name, world)
    if hit.row.on_this_machine:
        _refuse_slices(asked)
        return Found(seen=hit.seen, lines=world.local_lines(hit.seen, asked))
    seen = attempt_of(hit, name=name, attempt=asked.attempt)
    if seen is None or (asked.attempt is not None and seen.jobset is None):
        raise no_attempt(hit, asked.attempt or 0, gone=GONE, fix=GONE_FIX)
    jobset = _jobset(seen)
    roles = roles_for(jobset, asked)
    told = _texts(
        world.lines(seen, jobset, roles, asked), jobset=jobset, prefixed=len(roles) > 1, timestamps=timestamps
    )
    return Found(seen=seen, lines=told, names=tuple(role_text(jobset, role) for role in roles))


def _found(name: str, world: World) -> Seen:
    from xsft.commands.progress import spinning
    from xsft.run_query import look
    from xsft.states.lookup import one_run

    with spinning("logs", "asking the clusters") as say:
        world.query.listen(say)
        found, rows = look(world.query)
    return one_run(name, rows, found)


def _followed(name: str, world: World) -> Seen:
    """As while it follows: a cluster that does not answer for a while is waited for."""
    from xsft.errors import Unreachable
    from xsft.states.lookup import silent
    from xsft.states.waiting import MENDS_ITSELF

    said = ""
    while True:
        try:
            hit = _found(name, world)
            mute = silent(hit.seen)
            if mute is None or mute.id not in MENDS_ITSELF:
                return hit
            why = f"The cluster of {name} does not answer: {mute.why.rstrip('.')}."
        except Unreachable as failed:
            if failed.problem_id not in MENDS_ITSELF:
                raise
            why = failed.message
        if why != said:
            said = why
            world.say(f"{why} Waiting on.")
        world.pause(AGAIN_S)


def _ended(seen: Observation, *, asked: LogRequest, world: World) -> int:
    """0; where the run was followed to its end, after saying how it ended."""
    from xsft.commands.log_end import end_text

    text = end_text(seen, query=world.query, pause=world.pause) if asked.follow else None
    if text is not None:
        world.say(text)
    return 0


def _why_nothing(asked: LogRequest) -> str:
    """A log that was asked for in part may be there, and have nothing of that part."""
    if asked.tail == 0:
        return ": of its last 0 lines, as asked"
    if asked.since is not None:
        return f" since {asked.since}: it has said nothing since, or its log is gone with its pod"
    return ": it has not begun, or its log is gone with its pod"


def write_lines(lines: Iterator[str], stdout: TextIO) -> int:
    """Each at once: somebody may be watching a pipe. How many there were."""
    count = 0
    for line in lines:
        stdout.write(f"{line}\n")
        stdout.flush()
        count += 1
    return count


def roles_for(jobset: JobSet, asked: LogRequest) -> tuple[Role, ...]:
    from xsft.commands.log_roles import chosen_roles
    from xsft.errors import UsageError

    roles = chosen_roles(jobset, slice_index=asked.slice_index, host=asked.host, every=asked.every)
    if len(roles) > asked.at_most:
        raise UsageError(
            f"{jobset.name} has {len(roles)} such processes, and at most {asked.at_most} logs are opened at once.",
            fix=f"Name one: --slice N --host N; or open them all: --streams {len(roles)}.",
        )
    return roles


def _refuse_slices(asked: LogRequest) -> None:
    from xsft.errors import UsageError

    if asked.slice_index is not None or asked.host is not None or asked.since is not None:
        raise UsageError(
            "A run on this machine is one process, whose lines carry no time.",
            fix="Leave --slice, --host and --since out; --tail N shows the last lines.",
        )


def _jobset(seen: Observation) -> JobSet:
    from xsft.errors import Unknown, Unreachable
    from xsft.states.lookup import silence

    if silent := silence(seen):
        raise Unreachable(f"The cluster of {seen.run_name} does not answer: {silent}.", fix="Try again when it does.")
    if seen.jobset is not None:
        return seen.jobset
    raise Unknown(f"{seen.run_name} has no JobSet any more, {GONE}.", fix=GONE_FIX)


def _texts(lines: Iterator[LogLine], *, jobset: JobSet, prefixed: bool, timestamps: bool) -> Iterator[str]:
    from xsft.commands.log_roles import role_text

    for line in lines:
        at = f"{line.at} " if timestamps and line.at else ""
        who = f"{role_text(jobset, line.role)} | " if prefixed else ""
        yield f"{at}{who}{line.text}"
