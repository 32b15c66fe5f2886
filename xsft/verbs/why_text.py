"""The explanation of a run's state as text: the cause, its evidence, the next step, and other findings."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.cluster.evidence import Evidence
from xsft.runs.cause_rule import Cause, Explanation
from xsft.runs.failing import first_failure, place
from xsft.runs.rows import Row
from xsft.spec.keypath import printable
from xsft.trainer.plain import bare_text

OTHERS = 4
"""Number of causes shown after the first one."""


def why_lines(row: Row, evidence: Evidence, explained: Explanation) -> Iterator[str]:
    """Yield the explanation as paragraphs of text."""
    sources = ", ".join(evidence.status.evidence)
    yield _safe_text(f"{_title(row, explained)}{f' (source: {sources})' if sources else ''}")
    yield ""
    yield from cause_lines(explained.cause)
    if explained.others:
        yield ""
        yield "also seen:"
        for other in explained.others[:OTHERS]:
            where = f" [{other.where}]" if other.where else ""
            yield _safe_text(f"- {other.message}{where}")
    if row.tensorboard:
        yield ""
        yield _safe_text(f"tensorboard: {row.tensorboard}")


def cause_lines(cause: Cause) -> Iterator[str]:
    """Yield lines on the cause: what it is, where, its evidence, and the next step."""
    yield _safe_text(cause.message)
    if cause.basis == "inferred":
        yield "  (inferred: no condition, event or log line names this cause)"
    if cause.where:
        yield _safe_text(f"  where: {cause.where}")
    for line in cause.evidence:
        yield _safe_text(f"  > {line}")
    if cause.fix:
        yield f"next: {_safe_text(cause.fix)}"


def log_lines(evidence: Evidence, *, tail: int) -> Iterator[str]:
    """Yield the last lines of the process that failed first; none if no log of one could be read."""
    failure = first_failure(evidence)
    log = failure.log if failure else None
    if log is not None and log.lines:
        yield f"the last lines of {place(log)}:"
        yield from (_safe_text(f"  | {line}") for line in log.lines[-tail:])


def _title(row: Row, explained: Explanation) -> str:
    """Return e.g. `gemma is failed (trainer-failed), step 120 of 1000`; for a later submission also its JobSet."""
    reason = f" ({explained.reason})" if explained.reason else ""
    step = "" if row.step is None else f", step {row.step}{f' of {row.steps}' if row.steps else ''}"
    attempt = f" (JobSet {row.jobset})" if row.jobset not in (None, row.run_name) else ""
    return f"{row.run_name}{attempt} is {explained.state}{reason}{step}"


def _safe_text(text: str) -> str:
    """Return text of the cluster or the trainer without control characters, secrets and colours."""
    return printable(bare_text(text))
