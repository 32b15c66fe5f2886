"""Plans the evaluation of a workload: reads the file of its prompts, if it names one, and the result of its pod."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from xsft.base.errors import Refused, SpecError
from xsft.base.problems import error
from xsft.evaluation.inputs import Conversation, EvaluationPlan, turn
from xsft.evaluation.report import MAX_BYTES, EvaluationReport, from_json
from xsft.evaluation.trainer_plan import WHERE, check_evaluation_job, evaluation_plan
from xsft.machine.files import system_words
from xsft.machine.regular import read_text
from xsft.planning.gather import workload_folder
from xsft.records.record_files import RecordStore, record_store
from xsft.spec.resolve import Run

MAX_PROMPT_BYTES = 1 << 24
FIX = 'Write one JSON object per line: {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}]}.'


def plan_evaluate(run: Run, *, digest: str, file: str | Path) -> EvaluationPlan:
    """Return the plan for the training's last step. `digest`: the training's spec_digest; `file`: the workload.

    Raises SpecError if the evaluation cannot be planned.
    """
    stage = run.spec.stages.evaluate
    prompts = None
    if stage and isinstance(stage.prompts, str):
        prompts = read_prompts(workload_folder(file) / stage.prompts)
    if problems := tuple(check_evaluation_job(run, prompts=prompts)):
        raise SpecError(tuple(problem.in_file(str(file)) for problem in problems))
    return evaluation_plan(run, digest=digest, prompts=prompts)


def read_prompts(path: Path) -> tuple[Conversation, ...]:
    """Return the prompts in a file of JSON lines. Raises SpecError for a file that cannot be read, or holds none."""
    try:
        lines = [line for line in read_text(path, limit=MAX_PROMPT_BYTES).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as failed:
        raise _prompts_refused(f"{path} cannot be read: {system_words(failed)}.") from failed
    if not lines:
        raise _prompts_refused(f"{path} contains no prompt.")
    return tuple(_prompt(line, number, path) for number, line in enumerate(lines, start=1))


def _prompt(line: str, number: int, path: Path) -> Conversation:
    try:
        document: Any = json.loads(line)
        if isinstance(document, dict) and isinstance(document.get("prompt"), str):
            return turn(document["prompt"])
        messages = msgspec.convert(document["messages"], Conversation)
    except (ValueError, TypeError, KeyError, RecursionError) as wrong:
        raise _prompts_refused(f"{path}:{number} is not a prompt.") from wrong
    if not messages or messages[-1].role != "user":
        raise _prompts_refused(f"{path}:{number}: the last message of a prompt must be the user's.")
    return messages


def _prompts_refused(message: str) -> SpecError:
    return SpecError((error("evaluate-prompts", f"{WHERE}.prompts", message, FIX),))


def is_measured(path: str) -> bool:
    """Return whether the result of an evaluation's pod exists. Raises Unreachable if it cannot be read."""
    return record_store().objects_at(path).read(path, limit=MAX_BYTES) is not None


def read_report(plan: EvaluationPlan, *, store: RecordStore) -> EvaluationReport | None:
    """Return the report; None without one.

    Raises Unreachable if the output cannot be read, Refused for a file of other content.
    """
    content = store.objects_at(plan.result).read(plan.result, limit=MAX_BYTES)
    if content is None:
        return None
    report = from_json(content)
    if report is None or report.digest != plan.digest:
        raise Refused(
            f"{plan.result} is not the result of this evaluation.",
            fix="Look at the file, and move it away if no evaluation is in progress; nothing was changed.",
            id="evaluation-result",
        )
    return report
