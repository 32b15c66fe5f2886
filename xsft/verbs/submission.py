"""Print a submission to a cluster, and how the run ended."""

from __future__ import annotations

from typing import Any

from xsft.launch.submission import Submission
from xsft.launch.submit_to_cluster import SubmissionEnd
from xsft.runs.rows import state_line
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.plan_document import finite, print_json, print_lines, run_document
from xsft.verbs.submission_text import submission_lines

PrintedDocument = tuple[str, dict[str, Any]]
"""The kind of a document, and its fields."""


def print_created(done: Submission) -> None:
    """Print the submission, before the wait for its end."""
    print_lines(submission_lines(done))


def _submission_document(end: SubmissionEnd) -> PrintedDocument:
    done, row = end.done, end.waited.row if end.waited else None
    steps, loss = (row.step, row.loss) if row else (done.steps, None)
    document: dict[str, Any] = {
        "run_name": done.plan.run_name,
        "jobset": done.jobset,
        "action": done.action,
        "uid": done.uid,
        "spec_digest": done.plan.spec_digest,
        "record": done.record,
        "result": {"steps": steps, "first_loss": None, "last_loss": finite(loss)} if steps else None,
        "problems": problem_documents(end.problems),
    }
    if done.resumed_from is not None:
        document |= {"resumed_from": done.resumed_from, "resumed_order": done.resumed_order}
    return "submit", document | waited_fields(end)


def waited_fields(end: SubmissionEnd) -> dict[str, Any]:
    """Return the fields that only a document of a call with `--wait` has."""
    if end.waited is None:
        return {}
    run = run_document(end.waited.row) if end.waited.row else None
    return {"run": run, "exit_status": end.failed.exit_status if end.failed else 0}


def report_submission(end: SubmissionEnd, *, json: bool, document: PrintedDocument | None = None) -> int:
    """Print the end of a submission and return the exit status; without `json` the error of a failed run is raised
    instead. `document`: what `json` prints; None: that of a training."""
    if json:
        print_json(*(document or _submission_document(end)))
    if end.waited is None:
        if not json:
            print_created(end.done)
        return 0
    print_problems((*end.waited.problems, *(end.failed.problems if json and end.failed else ())))
    if end.failed and not json:
        raise end.failed
    if end.waited.row and not json:
        print_lines((state_line(end.waited.row),))
    return end.failed.exit_status if end.failed else 0
