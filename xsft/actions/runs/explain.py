"""Explain a run's state: read all evidence of one submission, and find the most likely cause."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from xsft.actions.runs.attempts import attempt_of, no_attempt
from xsft.actions.runs.evidence import evidence_of, forgotten_attempt
from xsft.effects.runs.runs import Runs
from xsft.errors import Unreachable
from xsft.run_query import RunQuery, look_up, query_of
from xsft.states.causes import explain_state, found_of
from xsft.states.evidence import Evidence
from xsft.states.folding import FoldedRun
from xsft.states.lookup import silent
from xsft.states.model import Observation
from xsft.states.rows import Row, row_of
from xsft.states.rule import Explanation
from xsft.trainers.plain import bare_text


class WhyWorld(Struct, frozen=True, kw_only=True):
    query: RunQuery
    gather: Callable[[FoldedRun], Evidence]
    """Returns all evidence that may explain the run. What cannot be read is None in it; raises nothing for that."""
    recorded: Callable[[FoldedRun, int], Observation | None] = lambda _hit, _number: None
    """Returns an attempt of which only the record is left; None if there is none, or it cannot be read."""


def why_world(runs: Runs) -> WhyWorld:
    """Return the world that asks the real clusters and this machine."""
    return WhyWorld(query=query_of(runs), gather=partial(evidence_of, runs), recorded=partial(forgotten_attempt, runs))


class Explained(Struct, frozen=True, kw_only=True):
    row: Row
    evidence: Evidence
    explanation: Explanation


def explained(name: str, *, world: WhyWorld, attempt: int | None = None) -> Explained:
    """Return the explanation. Raises UsageError for a name that no run has or an attempt that never existed,
    Unreachable if the run's cluster does not answer."""
    hit = _submission(look_up(world.query, name), name=name, attempt=attempt, world=world)
    _require_its_cluster(hit.seen, hit.row)
    evidence = world.gather(hit)
    explanation = explain_state(evidence, now=world.query.now())
    _keep(hit, evidence, explanation, world)
    return Explained(row=hit.row, evidence=evidence, explanation=explanation)


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
    found = "" if hit.row.ended else bare_text(found_of(evidence, explained.cause))
    if found or (evidence.status != hit.status and evidence.status.state == "failed"):
        world.query.keep([(replace(evidence.seen, found=found), evidence.status)])


def _require_its_cluster(seen: Observation, row: Row) -> None:
    if mute := silent(seen):
        known = f" Last known state, at {row.observed_at}: {row.state}{f' ({row.reason})' if row.reason else ''}."
        raise Unreachable(
            f"The cluster of {row.run_name} does not answer: {mute.why}.{known if seen.last_known else ''}",
            fix="The state of the run is unknown. Try again later.",
        )
