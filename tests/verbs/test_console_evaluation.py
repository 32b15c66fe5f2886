from __future__ import annotations

import io
from dataclasses import replace as changed

from msgspec.structs import replace

from xsft.evaluation.inputs import turn
from xsft.evaluation.report import EvaluationReport, MeasuredAnswer, MeasuredWeights
from xsft.verbs.console import print_evaluation
from xsft.workers.evaluation_verdict import Judgement, RuleOutcome


def measured(text: str, loss: float | None) -> MeasuredWeights:
    answer = MeasuredAnswer(tokens=(1,), text=text, ended="stop")
    return MeasuredWeights(answers=(answer,), loss=loss, targets=64, rows=6)


RULE = RuleOutcome(rule="answer to prompt 0 matches 'is 2'", passed=True, why="it answered 'it is 2.'")
REPORT = EvaluationReport(
    run_name="tiny-evaluate",
    training="tiny",
    step=60,
    digest="0" * 64,
    weights="/runs/tiny/checkpoints/60/model_params",
    base_weights="random weights",
    max_new_tokens=8,
    finished_at="2026-11-21T12:00:00Z",
    prompts=(turn("What is 1 plus 1?"),),
    base=measured("[bold]no\x1b]0;title\x07", 6.29676),
    tuned=measured("it is 2.", 0.00056),
    judgement=Judgement(verdict="passed", rules=(RULE,)),
    worker="0" * 64,
)


def printed(report: EvaluationReport) -> str:
    stream = io.StringIO()
    print_evaluation(report, stream=stream)
    return stream.getvalue()


def test_answers_are_printed_side_by_side_and_losses_below() -> None:
    text = printed(REPORT)
    (row,) = (line for line in text.splitlines() if "What is 1 plus 1?" in line)
    assert "it is 2." in row
    assert "6.2968" in text
    assert "0.0006" in text
    assert text.splitlines()[-2:] == [
        "holds   answer to prompt 0 matches 'is 2': it answered 'it is 2.'",
        "verdict passed",
    ]


def test_control_codes_are_removed_from_answers() -> None:
    text = printed(REPORT)
    assert "[bold]no" in text
    assert "\x1b" not in text


def test_an_infinite_loss_and_a_missed_rule_are_reported() -> None:
    missed = Judgement(verdict="failed", rules=(changed(RULE, passed=False),))
    text = printed(replace(REPORT, tuned=replace(REPORT.tuned, loss=None), judgement=missed))
    assert "not finite" in text
    assert "missed  answer to prompt 0" in text
    assert text.endswith("verdict failed\n")
