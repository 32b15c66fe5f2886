from __future__ import annotations

import re

import pytest

from tests.evaluation.factory import inputs
from xsft.workers.evaluation_verdict import AnswerPattern, Judgement, Losses, judge_evaluation
from xsft.workers.expression import matching_texts

NONE = Losses(base=None, tuned=None)


def matches(expression: str, texts: tuple[str, ...]) -> tuple[str, ...] | None:
    return None if expression == "slow" else tuple(text for text in texts if re.search(expression, text))


def judged(losses: Losses = NONE, answers: tuple[str, ...] = ("it is 2.",), **changes: object) -> Judgement:
    return judge_evaluation(inputs(**changes).rules, answers=answers, losses=losses, matches=matches)


def test_verdict_without_rules_is_not_judged() -> None:
    judgement = judged()
    assert judgement.verdict == "not-judged"
    assert "neither" not in judgement.summary
    assert "no rule" in judgement.summary


@pytest.mark.parametrize(
    ("expression", "verdict", "why"),
    [("is 2", "passed", "it is 2."), ("is 3", "failed", "it is 2."), ("slow", "failed", "took too long")],
)
def test_answer_is_searched_for_the_required_expression(expression: str, verdict: str, why: str) -> None:
    judgement = judged(require=(AnswerPattern(prompt=0, matches=expression),))
    assert judgement.verdict == verdict
    assert why in judgement.rules[0].why


def test_a_rule_for_a_prompt_that_does_not_exist_fails() -> None:
    judgement = judged(require=(AnswerPattern(prompt=3, matches="."),))
    assert (judgement.verdict, len(judgement.missed)) == ("failed", 1)
    assert "1 prompts" in judgement.summary


@pytest.mark.parametrize(
    ("tuned", "base", "maximum", "verdict"),
    [
        (1.0, 2.0, None, "passed"),
        (2.0, 1.0, None, "failed"),
        (float("nan"), 1.0, None, "failed"),
        (None, None, None, "failed"),
        (1.0, 2.0, 0.5, "failed"),
        (1.0, 0.9, 1.0, "passed"),
        (float("nan"), 1.0, 1.0, "failed"),
    ],
)
def test_eval_losses_are_compared_with_base_and_maximum(
    tuned: float | None, base: float | None, maximum: float | None, verdict: str
) -> None:
    assert judged(Losses(base=base, tuned=tuned), rows=8, max_eval_loss=maximum).verdict == verdict


def test_one_missed_rule_fails_the_verdict() -> None:
    rules = (AnswerPattern(prompt=0, matches="is 2"), AnswerPattern(prompt=0, matches="is 3"))
    judgement = judged(Losses(base=2.0, tuned=1.0), rows=8, require=rules)
    assert judgement.verdict == "failed"
    assert [rule.passed for rule in judgement.rules] == [True, False, True]
    assert "is 3" in judgement.summary
    assert "eval loss" not in judgement.summary


def test_expression_is_found_anywhere_in_a_text_or_matches_the_whole() -> None:
    texts = ("it is 2.", "is 2", "it is 3.")
    assert matching_texts(r"is \d*2", texts) == ("it is 2.", "is 2")
    assert matching_texts(r"is \d*2", texts, whole=True) == ("is 2",)


@pytest.mark.parametrize(
    ("expression", "text"),
    [("(a+)+$", "a" * 60 + "b"), ("(?:(?:(?:a?){9999}){9999}){9999}", "a")],
    ids=["time", "both"],
)
def test_expression_that_takes_too_much_has_no_answer(expression: str, text: str) -> None:
    assert matching_texts(expression, (text,), limit_s=0.3) is None


def test_invalid_expression_raises_value_error() -> None:
    with pytest.raises(ValueError, match="unterminated"):
        matching_texts("(", ("x",))
