"""Explain a run's state: read all evidence of one submission, and find the most likely cause."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import Unreachable
from xsft.cluster.evidence import Evidence
from xsft.cluster.observation import Observation
from xsft.runs.cause_rule import Explanation
from xsft.runs.causes import explain_state, found_of
from xsft.runs.classify import classify
from xsft.runs.folding import FoldedRun
from xsft.runs.lookup import attempt_of, no_attempt, one_run, silent
from xsft.runs.read_all import RunAccess
from xsft.runs.rows import Row, row_of
from xsft.trainer.lines import bare_text

ReadEvidence = Callable[[FoldedRun], Evidence]
"""Return all evidence that may explain the run. What cannot be read is None in it; raises nothing for that."""
ReadAttempt = Callable[[FoldedRun, int], Observation | None]
"""Return an attempt of which only the record is left; None if there is none, or it cannot be read."""


class RunExplanation(Struct, frozen=True, kw_only=True):
    row: Row
    evidence: Evidence
    explanation: Explanation


def explain_run(
    name: str, *, runs: RunAccess, evidence: ReadEvidence, recorded: ReadAttempt, attempt: int | None = None
) -> RunExplanation:
    """Return the explanation. Raises UsageError for a name that no run has or an attempt that never existed,
    Unreachable if the run's cluster does not answer."""
    hit = one_run(name, runs.look())
    seen = _observation_of(hit, name=name, attempt=attempt, recorded=recorded)
    if seen is not hit.seen:
        now = runs.now()
        status = classify(seen)
        hit = replace(hit, seen=seen, status=status, row=row_of(seen, status, now=now, attempts=hit.row.attempts))
    _require_its_cluster(hit.seen, hit.row)
    found = evidence(hit)
    explanation = explain_state(found)
    _keep_findings(hit, found, explanation, runs)
    return RunExplanation(row=hit.row, evidence=found, explanation=explanation)


def _observation_of(hit: FoldedRun, *, name: str, attempt: int | None, recorded: ReadAttempt) -> Observation:
    """Return the observation of the requested attempt, the newest by default."""
    seen = attempt_of(hit, name=name, attempt=attempt)
    if attempt is not None and (seen is None or (seen.jobset is None and seen is not hit.seen)):
        seen = recorded(hit, attempt) or seen
    if seen is None:
        fix = "xsft status shows the run's state; Cloud Logging may have its log."
        raise no_attempt(hit, attempt or 0, gone="and no record of it could be read", fix=fix)
    return seen


def _keep_findings(hit: FoldedRun, evidence: Evidence, explained: Explanation, runs: RunAccess) -> None:
    """Record what the pods show and `status` does not read, so that it stays known after they are gone."""
    found = "" if hit.row.ended else bare_text(found_of(evidence, explained.cause))
    if found or (evidence.status != hit.status and evidence.status.state == "failed"):
        runs.keep([(replace(evidence.seen, found=found), evidence.status)])


def _require_its_cluster(seen: Observation, row: Row) -> None:
    if mute := silent(seen):
        known = f" Last known state, at {row.observed_at}: {row.state}{f' ({row.reason})' if row.reason else ''}."
        raise Unreachable(
            f"The cluster of {row.run_name} does not answer: {mute.clause}.{known if seen.last_known else ''}",
            fix="The state of the run is unknown. Try again later.",
        )
