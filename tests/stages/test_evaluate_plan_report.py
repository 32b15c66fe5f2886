"""The result of the pod of an evaluation, and its verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.slicejobs import STAGES, evaluation
from tests.stories import intent_of, spec_of, varied
from xsft.base.errors import Refused
from xsft.evaluation.inputs import EvaluationPlan
from xsft.evaluation.report import evaluation_argv
from xsft.records.record_files import RecordStore, record_store
from xsft.stages.evaluate_plan import is_measured, read_report
from xsft.workers.evaluation_container import end_of, evaluation_document, judged


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return record_store({"HOME": str(tmp_path)})


@pytest.fixture
def plan(tmp_path: Path) -> EvaluationPlan:
    planned = evaluation(intent_of(varied(spec_of("qwen3_gsm8k"), {"stages": STAGES})))
    return replace(planned, directory=str(tmp_path / "0123456789ab"))


def measured(plan: EvaluationPlan, *, says: str, loss: float | None = None, **changes: Any) -> dict[str, Any]:
    """Write what the first host writes, and return the end that it records."""
    answer = {"tokens": [1], "text": says, "ended": "stop", "prompt_cut": False}
    weights = {"answers": [answer], "loss": loss, "targets": 1, "rows": 1}
    prompts = [[{"role": "user", "content": "What is 1 plus 1?"}]]
    measurement = {"prompts": prompts, "models": {"base": weights, "tuned": weights}}
    job = json.loads(evaluation_argv(plan, end={}, carried=None)[3])["notes"]
    judgement = judged(measurement, job["rules"])
    Path(plan.result).parent.mkdir(parents=True, exist_ok=True)
    Path(plan.result).write_text(
        json.dumps({**evaluation_document(measurement, judgement, job["noted"]), **changes}, allow_nan=False)
    )
    return end_of(judgement)


@pytest.mark.parametrize(("says", "outcome", "verdict"), [("2", "completed", "passed"), ("3", "failed", "failed")])
def test_the_pod_writes_the_verdict_and_the_outcome(
    plan: EvaluationPlan, store: RecordStore, says: str, outcome: str, verdict: str
) -> None:
    assert read_report(plan, store=store) is None
    end = measured(plan, says=f"it is {says}", loss=float("nan"))
    evaluation_report = read_report(plan, store=store)
    assert evaluation_report is not None
    assert (evaluation_report.judgement.verdict, evaluation_report.run_name, evaluation_report.step) == (
        verdict,
        plan.run_name,
        plan.inputs.step,
    )
    assert evaluation_report.tuned.loss is None
    assert end["outcome"] == outcome
    assert ("reason" in end) == (outcome == "failed")


@pytest.mark.parametrize("content", ["{", "[]", '{"prompts": []}', "\xff"])
def test_a_damaged_result_is_refused(plan: EvaluationPlan, store: RecordStore, content: str) -> None:
    measured(plan, says="it is 2")
    Path(plan.result).write_text(content, encoding="latin-1")
    with pytest.raises(Refused, match=r"evaluation\.json is not the result") as refused:
        read_report(plan, store=store)
    assert refused.value.problem_id == "evaluation-result"


def test_the_result_of_another_evaluation_is_refused(plan: EvaluationPlan, store: RecordStore) -> None:
    measured(plan, says="it is 2", digest="0" * 64)
    with pytest.raises(Refused, match="not the result of this evaluation"):
        read_report(plan, store=store)


def test_is_measured_is_true_once_the_result_exists(plan: EvaluationPlan) -> None:
    assert not is_measured(plan.result)
    measured(plan, says="it is 2")
    assert is_measured(plan.result)
