"""The values that a program in a pod needs to record the end of its run's attempt. Pure."""

from __future__ import annotations

import json
from typing import Any

from xsft.records import attempt_stem
from xsft.records.document import facts_to_json
from xsft.records.record import AttemptFacts
from xsft.spec.resolve import Run


def noted_end(run: Run) -> dict[str, Any]:
    """Return the document of the end, without outcome and time, and its path, without `.<outcome>.json`. `run`: of this
    attempt."""
    end = AttemptFacts(outcome="completed", at="", submitter="container")
    return {
        "attempt": json.loads(facts_to_json(end, run_name=run.run_name, number=run.attempt)),
        "attempt_stem": attempt_stem(str(run.output), run.run_name, run.attempt),
    }
