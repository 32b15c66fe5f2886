"""`xsft why RUN`: print the most likely cause first, then the next step, then other findings."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from xsft.base.errors import Unknown
from xsft.cluster.evidence import Evidence
from xsft.runs.cause_rule import Cause, Explanation
from xsft.runs.explain import RunExplanation, explain_run
from xsft.runs.read_all import runs_of
from xsft.runs.rows import Row
from xsft.runs.run_evidence import evidence_of, forgotten_attempt
from xsft.trainer.plain import bare_text
from xsft.verbs.plan_document import print_json
from xsft.verbs.progress import show_spinner
from xsft.verbs.why_text import why_lines


def run(args: argparse.Namespace) -> int:
    runs = runs_of((args.run,), place=args.place, context=args.context, namespace=args.namespace)
    with show_spinner("why", "asking the clusters") as say:
        runs.listen(say)
        found = explain_run(
            args.run,
            runs=runs,
            evidence=partial(evidence_of, runs),
            recorded=partial(forgotten_attempt, runs),
            attempt=args.attempt,
        )
    return report_why(found, json=args.json)


def report_why(found: RunExplanation, *, json: bool) -> int:
    """Print the explanation; return 0, or 8 if the state is unknown."""
    status = Unknown.exit_status if found.explanation.state == "unknown" else 0
    if json:
        _print_explanation(found.row, found.evidence, found.explanation, status)
    else:
        sys.stdout.writelines([f"{line}\n" for line in why_lines(found.row, found.evidence, found.explanation)])
    return status


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
    bare = {
        "message": bare_text(cause.message),
        "fix": bare_text(cause.fix),
        "evidence": tuple(map(bare_text, cause.evidence)),
    }
    return dict(to_builtins(replace(cause, **bare)))
