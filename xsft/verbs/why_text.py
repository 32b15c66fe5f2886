"""The cause of a run's state as text, for `why` and for a run that failed while it was waited for."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.cluster.evidence import Evidence
from xsft.runs.cause_rule import Cause
from xsft.runs.pod_reasons import first_failure, place
from xsft.spec.keypath import printable
from xsft.trainer.lines import bare_text


def cause_lines(cause: Cause) -> Iterator[str]:
    """Yield lines on the cause: what it is, where, its evidence, and the next step."""
    yield safe_text(cause.message)
    if cause.basis == "inferred":
        yield "  (inferred: no condition, event or log line names this cause)"
    if cause.where:
        yield safe_text(f"  where: {cause.where}")
    for line in cause.evidence:
        yield safe_text(f"  > {line}")
    if cause.fix:
        yield f"next: {safe_text(cause.fix)}"


def log_lines(evidence: Evidence, *, tail: int) -> Iterator[str]:
    """Yield the last lines of the process that failed first; none if no log of one could be read."""
    failure = first_failure(evidence)
    log = failure.log if failure else None
    if log is not None and log.lines:
        yield f"the last lines of {place(log)}:"
        yield from (safe_text(f"  | {line}") for line in log.lines[-tail:])


def safe_text(text: str) -> str:
    """Return text of the cluster or the trainer without control characters, secrets and colours."""
    return printable(bare_text(text))
