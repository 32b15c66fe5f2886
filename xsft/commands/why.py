"""`xsft why RUN`: the one cause first, then the next step, then what else was seen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from xsft.commands.arguments import add_json
from xsft.commands.run_arguments import add_attempt, add_run, add_where

if TYPE_CHECKING:
    from xsft.effects.runs.runs import Runs
    from xsft.run_query import RunQuery
    from xsft.states.evidence import Evidence
    from xsft.states.folding import Seen
    from xsft.states.model import Observation
    from xsft.states.rows import Row
    from xsft.states.rule import Cause, Explanation

OTHERS = 4
"""Causes that are shown beside the first one."""

EPILOG = (
    "Exit status 0 where it could answer, whatever the run does; 8 where nothing certain is known of the run; 5 where"
    " its cluster does not answer."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_run(parser)
    add_attempt(parser)
    add_where(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from xsft.commands.run_sources import runs_of

    return why(args.run, world=world_of(runs_of(args, args.run)), attempt=args.attempt, json=args.json)


class World(Struct, frozen=True, kw_only=True):
    query: RunQuery
    gather: Callable[[Seen], Evidence]
    """All that may explain the run. What cannot be read is None in it; raises nothing for that."""
    recorded: Callable[[Seen, int], Observation | None] = lambda _hit, _number: None
    """An attempt of which only the record is left; None where there is none, or it cannot be read."""


def world_of(runs: Runs) -> World:
    """The real one."""
    from xsft.commands.evidence_sources import evidence_of, forgotten_attempt
    from xsft.run_query import query_of

    return World(query=query_of(runs), gather=evidence_of(runs), recorded=forgotten_attempt(runs))


class Explained(Struct, frozen=True, kw_only=True):
    row: Row
    evidence: Evidence
    explanation: Explanation


def why(name: str, *, world: World, attempt: int | None = None, json: bool) -> int:
    """0, or 8 where the state is unknown. Raises as `explained`."""
    from xsft.errors import Unknown

    found = explained(name, world=world, attempt=attempt)
    status = Unknown.exit_status if found.explanation.state == "unknown" else 0
    if json:
        _print_document(found.row, found.evidence, found.explanation, status)
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(found.row, found.evidence, found.explanation))
    return status


def explained(name: str, *, world: World, attempt: int | None = None) -> Explained:
    """Raises UsageError for a name that no run has or an attempt that never was, Unreachable where the run's cluster
    does not answer.
    """
    from xsft.commands.progress import spinning
    from xsft.run_query import look
    from xsft.states.causes import explain
    from xsft.states.lookup import one_run

    with spinning("why", "asking the clusters") as say:
        world.query.listen(say)
        found, rows = look(world.query)
        hit = _submission(one_run(name, rows, found), name=name, attempt=attempt, world=world)
        _require_its_cluster(hit.seen, hit.row)
        evidence = world.gather(hit)
    told = explain(evidence, now=world.query.now())
    _keep(hit, evidence, told, world)
    return Explained(row=hit.row, evidence=evidence, explanation=told)


def _submission(hit: Seen, *, name: str, attempt: int | None, world: World) -> Seen:
    """The attempt that is asked for, in place of the newest."""
    from msgspec.structs import replace

    from xsft.commands.attempts import attempt_of, no_attempt
    from xsft.states.rows import row_of

    seen = attempt_of(hit, name=name, attempt=attempt)
    if attempt is not None and (seen is None or (seen.jobset is None and seen is not hit.seen)):
        seen = world.recorded(hit, attempt) or seen
    if seen is None:
        fix = "xsft status shows what is known of the run; Cloud Logging may have what it said."
        raise no_attempt(hit, attempt or 0, gone="and no record of it could be read", fix=fix)
    if seen is hit.seen:
        return hit
    now = world.query.now()
    status = world.query.classify(seen, now=now)
    return replace(hit, seen=seen, status=status, row=row_of(seen, status, now=now, attempts=hit.row.attempts))


def _keep(hit: Seen, evidence: Evidence, explained: Explanation, world: World) -> None:
    """What all its pods told and `status` does not see: it is known from then on, whatever becomes of them."""
    from msgspec.structs import replace

    from xsft.states.causes import found_of

    found = "" if hit.row.ended else _bare(found_of(evidence, explained.cause))
    if found or (evidence.status != hit.status and evidence.status.state == "failed"):
        world.query.keep([(replace(evidence.seen, found=found), evidence.status)])


def text(row: Row, evidence: Evidence, explained: Explanation) -> Iterator[str]:
    """Paragraphs for a person."""
    told = ", ".join(evidence.status.evidence)
    yield _safe(f"{_title(row, explained)}{f' (told from {told})' if told else ''}")
    yield ""
    yield from cause_lines(explained.cause)
    if explained.others:
        yield ""
        yield "also seen:"
        for other in explained.others[:OTHERS]:
            where = f" [{other.where}]" if other.where else ""
            yield _safe(f"- {other.message}{where}")


def cause_lines(cause: Cause) -> Iterator[str]:
    """What it is, where, what shows it, and the next step."""
    yield _safe(cause.message)
    if cause.basis == "inferred":
        yield "  (inferred: no condition, event or log line names this cause)"
    if cause.where:
        yield _safe(f"  where: {cause.where}")
    for line in cause.evidence:
        yield _safe(f"  > {line}")
    if cause.fix:
        yield f"next: {_safe(cause.fix)}"


def log_lines(evidence: Evidence, *, tail: int) -> Iterator[str]:
    """The last lines of the process that failed first; none where no log of one could be read."""
    from xsft.states.failing import first_failure, place

    failure = first_failure(evidence)
    log = failure.log if failure else None
    if log is not None and log.lines:
        yield f"the last lines of {place(log)}:"
        yield from (_safe(f"  | {line}") for line in log.lines[-tail:])


def _title(row: Row, explained: Explanation) -> str:
    """`gemma is failed (trainer-failed), step 120 of 1000`; of a later submission its JobSet beside it."""
    reason = f" ({explained.reason})" if explained.reason else ""
    step = "" if row.step is None else f", step {row.step}{f' of {row.steps}' if row.steps else ''}"
    attempt = f" (JobSet {row.jobset})" if row.jobset not in (None, row.run_name) else ""
    return f"{row.run_name}{attempt} is {explained.state}{reason}{step}"


def _safe(text: str) -> str:
    """What the cluster and the trainer wrote neither drives the terminal nor shows a token; colours are left out."""
    from xsft.spec.keypath import printable

    return printable(_bare(text))


def _bare(text: str) -> str:
    from xsft.spec.secrets import redact
    from xsft.trainers.plain import plain

    return redact(plain(text))


def _require_its_cluster(seen: Observation, row: Row) -> None:
    from xsft.errors import Unreachable
    from xsft.states.lookup import silence

    if silent := silence(seen):
        known = f" Known last, at {row.observed_at}: {row.state}{f' ({row.reason})' if row.reason else ''}."
        raise Unreachable(
            f"The cluster of {row.run_name} does not answer: {silent}.{known if seen.last_known else ''}",
            fix="That says nothing about the run. Try again when the cluster answers.",
        )


def _print_document(row: Row, evidence: Evidence, explained: Explanation, status: int) -> None:
    from xsft.commands.documents import print_json

    document: dict[str, Any] = {
        "run_name": row.run_name,
        "jobset": row.jobset,
        "cluster": row.cluster,
        "state": explained.state,
        "reason": explained.reason,
        "evidence": list(evidence.status.evidence),
        "observed_at": row.observed_at,
        "cause": _document(explained.cause),
        "others": [_document(one) for one in explained.others],
        "unread": [f"{one.what}: {one.why}" for one in evidence.seen.unread],
        "problems": [],
        "exit_status": status,
    }
    print_json("why", document)


def _document(cause: Cause) -> dict[str, Any]:
    return {
        "id": cause.id,
        "message": _bare(cause.message),
        "fix": _bare(cause.fix),
        "where": cause.where,
        "basis": cause.basis,
        "evidence": [_bare(line) for line in cause.evidence],
    }
