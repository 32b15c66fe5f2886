"""`xsft why RUN`: print the most likely cause first, then the next step, then other findings."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from xsft.base.errors import Unknown
from xsft.base.state_names import State
from xsft.cluster.sources import PlaceQuery
from xsft.runs.cause_rule import Cause
from xsft.runs.read_all import runs_for
from xsft.runs.read_evidence import RunExplanation, evidence_of, explain_run, forgotten_attempt
from xsft.trainer.lines import bare_text
from xsft.verbs.document import VerbDocument, report_document, request_of, show_spinner
from xsft.verbs.why_text import cause_lines, safe_text

OTHERS = 4
"""Number of causes shown after the first one."""


class WhyDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.why/1"):
    """`xsft why RUN --json`. Its exit status is 8 if nothing certain is known of the run."""

    run_name: str
    jobset: str | None
    cluster: str | None
    state: State
    reason: str
    evidence: tuple[str, ...]
    """Sources of the state."""
    observed_at: str
    tensorboard: str | None
    """As in `xsft status --json`."""
    cause: Cause
    """The most likely cause."""
    others: tuple[Cause, ...]
    """Other possible causes, the most likely first."""
    unread: tuple[str, ...]
    """Sources that could not be read, as `source: reason`."""


def run(args: argparse.Namespace) -> int:
    runs = runs_for(request_of(args, PlaceQuery), names=(args.run,), everything=True)
    runs.every_pod = True
    with show_spinner("why", "asking the clusters") as say:
        runs.listen(say)
        explained = explain_run(
            args.run,
            runs=runs,
            evidence=partial(evidence_of, runs),
            recorded=partial(forgotten_attempt, runs),
            attempt=args.attempt,
        )
    return report_why(explained, json=args.json)


def report_why(explained: RunExplanation, *, json: bool) -> int:
    """Print the explanation; return 0, or 8 if the state is unknown."""
    return report_document(why_document(explained), partial(why_lines, step=_step_text(explained)), as_json=json)


def why_document(explained: RunExplanation) -> WhyDocument:
    row, evidence, explanation = explained.row, explained.evidence, explained.explanation
    return WhyDocument(
        run_name=row.run_name,
        jobset=row.jobset,
        cluster=row.cluster,
        state=explanation.state,
        reason=explanation.reason,
        evidence=evidence.status.evidence,
        observed_at=row.observed_at,
        tensorboard=row.tensorboard,
        cause=_bare_cause(explanation.cause),
        others=tuple(map(_bare_cause, explanation.others)),
        unread=tuple(f"{unread.what}: {unread.why}" for unread in evidence.seen.unread),
        exit_status=Unknown.exit_status if explanation.state == "unknown" else 0,
    )


def _bare_cause(cause: Cause) -> Cause:
    evidence = tuple(map(bare_text, cause.evidence))
    return replace(cause, message=bare_text(cause.message), fix=bare_text(cause.fix), evidence=evidence)


def why_lines(document: WhyDocument, *, step: str) -> Iterator[str]:
    """Yield the explanation as paragraphs of text."""
    sources = ", ".join(document.evidence)
    yield safe_text(f"{_title(document)}{step}{f' (source: {sources})' if sources else ''}")
    yield ""
    yield from cause_lines(document.cause)
    if document.others:
        yield ""
        yield "also seen:"
        for other in document.others[:OTHERS]:
            where = f" [{other.where}]" if other.where else ""
            yield safe_text(f"- {other.message}{where}")
    if document.tensorboard:
        yield ""
        yield safe_text(f"tensorboard: {document.tensorboard}")


def _title(document: WhyDocument) -> str:
    """Return e.g. `gemma is failed (trainer-failed)`; for a later submission also its JobSet."""
    reason = f" ({document.reason})" if document.reason else ""
    attempt = f" (JobSet {document.jobset})" if document.jobset not in (None, document.run_name) else ""
    return f"{document.run_name}{attempt} is {document.state}{reason}"


def _step_text(explained: RunExplanation) -> str:
    row = explained.row
    if row.step is None:
        return ""
    return f", step {row.step}" + (f" of {row.steps}" if row.steps else "")
