"""`xsft why RUN`: print the most likely cause first, then the next step, then other findings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.commands.attempts import attempt_of, no_attempt
from xsft.commands.documents import print_json
from xsft.commands.evidence_sources import evidence_of, forgotten_attempt
from xsft.commands.progress import spinning
from xsft.commands.run_sources import runs_of
from xsft.effects.runs.runs import Runs
from xsft.errors import Unknown, Unreachable
from xsft.run_query import RunQuery, look_up, query_of
from xsft.spec.keypath import printable
from xsft.spec.secrets import redact
from xsft.states.causes import explain_state, found_of
from xsft.states.evidence import Evidence
from xsft.states.failing import first_failure, place
from xsft.states.folding import FoldedRun
from xsft.states.lookup import why_silent
from xsft.states.model import Observation
from xsft.states.rows import Row, row_of
from xsft.states.rule import Cause, Explanation
from xsft.trainers.plain import plain_line

OTHERS = 4
"""Number of causes shown after the first one."""


def run(args: argparse.Namespace) -> int:
    return why(args.run, world=why_world(runs_of(args, args.run)), attempt=args.attempt, json=args.json)


class WhyWorld(Struct, frozen=True, kw_only=True):
    query: RunQuery
    gather: Callable[[FoldedRun], Evidence]
    """Returns all evidence that may explain the run. What cannot be read is None in it; raises nothing for that."""
    recorded: Callable[[FoldedRun, int], Observation | None] = lambda _hit, _number: None
    """Returns an attempt of which only the record is left; None if there is none, or it cannot be read."""


def why_world(runs: Runs) -> WhyWorld:
    """Return the world that asks the real clusters and this machine."""
    return WhyWorld(query=query_of(runs), gather=evidence_of(runs), recorded=forgotten_attempt(runs))


class Explained(Struct, frozen=True, kw_only=True):
    row: Row
    evidence: Evidence
    explanation: Explanation


def why(name: str, *, world: WhyWorld, attempt: int | None = None, json: bool) -> int:
    """Print the explanation; return 0, or 8 if the state is unknown. Raises as `explained`."""
    found = explained(name, world=world, attempt=attempt)
    status = Unknown.exit_status if found.explanation.state == "unknown" else 0
    if json:
        _print_explanation(found.row, found.evidence, found.explanation, status)
    else:
        sys.stdout.writelines([f"{line}\n" for line in why_lines(found.row, found.evidence, found.explanation)])
    return status


def explained(name: str, *, world: WhyWorld, attempt: int | None = None) -> Explained:
    """Return the explanation. Raises UsageError for a name that no run has or an attempt that never existed,
    Unreachable if the run's cluster does not answer."""
    with spinning("why", "asking the clusters") as say:
        world.query.listen(say)
        hit = _submission(look_up(world.query, name), name=name, attempt=attempt, world=world)
        _require_its_cluster(hit.seen, hit.row)
        evidence = world.gather(hit)
    told = explain_state(evidence, now=world.query.now())
    _keep(hit, evidence, told, world)
    return Explained(row=hit.row, evidence=evidence, explanation=told)


def _submission(hit: FoldedRun, *, name: str, attempt: int | None, world: WhyWorld) -> FoldedRun:
    """Return the run with the requested attempt in place of the newest."""
    seen = attempt_of(hit, name=name, attempt=attempt)
    if attempt is not None and (seen is None or (seen.jobset is None and seen is not hit.seen)):
        seen = world.recorded(hit, attempt) or seen
    if seen is None:
        fix = "xsft status shows the run's state; Cloud Logging may have its log."
        raise no_attempt(hit, attempt or 0, gone="and no record of it could be read", fix=fix)
    if seen is hit.seen:
        return hit
    now = world.query.now()
    status = world.query.classify(seen, now=now)
    return replace(hit, seen=seen, status=status, row=row_of(seen, status, now=now, attempts=hit.row.attempts))


def _keep(hit: FoldedRun, evidence: Evidence, explained: Explanation, world: WhyWorld) -> None:
    """Record what the pods show and `status` does not read, so that it stays known after they are gone."""
    found = "" if hit.row.ended else _bare(found_of(evidence, explained.cause))
    if found or (evidence.status != hit.status and evidence.status.state == "failed"):
        world.query.keep([(replace(evidence.seen, found=found), evidence.status)])


def why_lines(row: Row, evidence: Evidence, explained: Explanation) -> Iterator[str]:
    """Yield the explanation as paragraphs of text."""
    told = ", ".join(evidence.status.evidence)
    yield _safe(f"{_title(row, explained)}{f' (source: {told})' if told else ''}")
    yield ""
    yield from cause_lines(explained.cause)
    if explained.others:
        yield ""
        yield "also seen:"
        for other in explained.others[:OTHERS]:
            where = f" [{other.where}]" if other.where else ""
            yield _safe(f"- {other.message}{where}")
    if row.tensorboard:
        yield ""
        yield _safe(f"tensorboard: {row.tensorboard}")


def cause_lines(cause: Cause) -> Iterator[str]:
    """Yield lines on the cause: what it is, where, its evidence, and the next step."""
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
    """Yield the last lines of the process that failed first; none if no log of one could be read."""
    failure = first_failure(evidence)
    log = failure.log if failure else None
    if log is not None and log.lines:
        yield f"the last lines of {place(log)}:"
        yield from (_safe(f"  | {line}") for line in log.lines[-tail:])


def _title(row: Row, explained: Explanation) -> str:
    """Return e.g. `gemma is failed (trainer-failed), step 120 of 1000`; for a later submission also its JobSet."""
    reason = f" ({explained.reason})" if explained.reason else ""
    step = "" if row.step is None else f", step {row.step}{f' of {row.steps}' if row.steps else ''}"
    attempt = f" (JobSet {row.jobset})" if row.jobset not in (None, row.run_name) else ""
    return f"{row.run_name}{attempt} is {explained.state}{reason}{step}"


def _safe(text: str) -> str:
    """Return text of the cluster or the trainer without control characters, secrets and colours."""
    return printable(_bare(text))


def _bare(text: str) -> str:
    return redact(plain_line(text))


def _require_its_cluster(seen: Observation, row: Row) -> None:
    if silent := why_silent(seen):
        known = f" Last known state, at {row.observed_at}: {row.state}{f' ({row.reason})' if row.reason else ''}."
        raise Unreachable(
            f"The cluster of {row.run_name} does not answer: {silent}.{known if seen.last_known else ''}",
            fix="The state of the run is unknown. Try again later.",
        )


def _print_explanation(row: Row, evidence: Evidence, explained: Explanation, status: int) -> None:
    document: dict[str, Any] = {
        "run_name": row.run_name,
        "jobset": row.jobset,
        "cluster": row.cluster,
        "state": explained.state,
        "reason": explained.reason,
        "evidence": list(evidence.status.evidence),
        "observed_at": row.observed_at,
        "tensorboard": row.tensorboard,
        "cause": _cause_document(explained.cause),
        "others": [_cause_document(one) for one in explained.others],
        "unread": [f"{one.what}: {one.why}" for one in evidence.seen.unread],
        "problems": [],
        "exit_status": status,
    }
    print_json("why", document)


def _cause_document(cause: Cause) -> dict[str, Any]:
    bare = {"message": _bare(cause.message), "fix": _bare(cause.fix), "evidence": tuple(map(_bare, cause.evidence))}
    return dict(to_builtins(replace(cause, **bare)))
