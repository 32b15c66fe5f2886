"""The result of an evaluation on a cluster, which its pod wrote."""

from __future__ import annotations

from xsft.base.errors import Refused
from xsft.base.problems import Problem
from xsft.evaluation.plan import EvaluationPlan
from xsft.evaluation.report import MAX_BYTES, EvaluationReport, from_json
from xsft.records.record_files import RecordStore, record_store
from xsft.runs.record_end import record_job_end


def is_measured(path: str) -> bool:
    """Return whether the result of an evaluation's pod exists. Raises Unreachable if it cannot be read."""
    return record_store().objects_at(path).read(path, limit=MAX_BYTES) is not None


def read_report(plan: EvaluationPlan, *, store: RecordStore) -> EvaluationReport | None:
    """Return the report; None without one.

    Raises Unreachable if the output cannot be read, Refused for a file of other content.
    """
    objects = store.objects_at(plan.result)
    content = objects.read(plan.result, limit=MAX_BYTES)
    if content is None:
        return None
    found = from_json(content)
    if found is None or found.digest != plan.digest:
        raise Refused(
            f"{plan.result} is not the result of this evaluation.",
            fix="Look at the file, and move it away if no evaluation is in progress; nothing was changed.",
            id="evaluation-result",
        )
    return found


def record_end(plan: EvaluationPlan, report: EvaluationReport, *, store: RecordStore) -> tuple[Problem, ...]:
    """Record the end of the run unless its pod did; one whose verdict failed has failed. Returns a warning if that is
    not possible."""
    at, judgement = {"output": plan.output, "run_name": plan.run_name}, report.judgement
    if judgement.verdict == "failed":
        return record_job_end(store, **at, outcome="failed", reason=f"verdict {judgement.summary}")
    return record_job_end(store, **at, outcome="completed")
