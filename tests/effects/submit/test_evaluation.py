"""The result of an evaluation's pod, judged by the first xsft that reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.slicejobs import STAGES, evaluation
from tests.stories import intent_of, spec_of, varied
from xsft.effects.records.records import RecordStore, record_store
from xsft.effects.submit.evaluation import is_measured, read_report
from xsft.errors import Refused
from xsft.evaluation.plan import EvaluationPlan


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return record_store({"HOME": str(tmp_path)})


@pytest.fixture
def plan(tmp_path: Path) -> EvaluationPlan:
    planned = evaluation(intent_of(varied(spec_of("qwen3_gsm8k"), {"stages": STAGES})))
    return replace(planned, directory=str(tmp_path / "0123456789ab"))


def measured(plan: EvaluationPlan, *, says: str, loss: float | None = None, **changes: Any) -> None:
    answer = {"tokens": [1], "text": says, "ended": "stop", "prompt_cut": False}
    weights = {"answers": [answer], "loss": loss, "targets": 1, "rows": 1}
    prompts = [[{"role": "user", "content": "What is 1 plus 1?"}]]
    found = {"prompts": prompts, "models": {"base": weights, "tuned": weights}}
    noted = {"digest": plan.digest, "worker": "e" * 64, "finished_at": "2026-11-23T03:00:00Z"}
    Path(plan.measured).parent.mkdir(parents=True, exist_ok=True)
    Path(plan.measured).write_text(json.dumps({**found, **noted, **changes}))


@pytest.mark.parametrize(("says", "verdict"), [("it is 2", "passed"), ("it is 3", "failed")])
def test_the_first_reader_writes_the_verdict_once(
    plan: EvaluationPlan, store: RecordStore, says: str, verdict: str
) -> None:
    assert read_report(plan, store=store) is None
    measured(plan, says=says, loss=float("nan"))
    report = read_report(plan, store=store)
    assert report is not None
    assert (report.judgement.verdict, report.worker, report.finished_at) == (verdict, "e" * 64, "2026-11-23T03:00:00Z")
    assert report.tuned.loss is None
    written = Path(plan.result).stat().st_mtime_ns
    Path(plan.measured).unlink()
    assert read_report(plan, store=store) == report
    assert Path(plan.result).stat().st_mtime_ns == written


@pytest.mark.parametrize("content", ["{", "[]", '{"prompts": []}', "\xff"])
def test_a_torn_measurement_is_refused(plan: EvaluationPlan, store: RecordStore, content: str) -> None:
    measured(plan, says="it is 2")
    Path(plan.measured).write_text(content, encoding="latin-1")
    with pytest.raises(Refused, match=r"measurement\.json is no result") as refused:
        read_report(plan, store=store)
    assert refused.value.problem_id == "evaluation-result"
    assert not Path(plan.result).exists()


def test_the_result_of_another_evaluation_is_refused(plan: EvaluationPlan, store: RecordStore) -> None:
    measured(plan, says="it is 2", digest="0" * 64)
    with pytest.raises(Refused, match="no result of this evaluation"):
        read_report(plan, store=store)
    measured(plan, says="it is 2")
    assert read_report(plan, store=store) is not None
    other = replace(plan, inputs=replace(plan.inputs, max_new_tokens=1))
    with pytest.raises(Refused, match=r"evaluation\.json is no result"):
        read_report(other, store=store)


def test_a_submission_asks_whether_it_is_measured(plan: EvaluationPlan) -> None:
    assert not is_measured(plan.measured)
    measured(plan, says="it is 2")
    assert is_measured(plan.measured)
