"""The verdict on a measurement, by the rules of the workload. Pure, and without any library: a
pod has no xsft, and gets this module with its program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

MatchPattern = Callable[[str, tuple[str, ...]], tuple[str, ...] | None]
"""(regular expression, texts) -> the texts in which it is found; None if that took too long."""


@dataclass(frozen=True, kw_only=True)
class AnswerPattern:
    """One requirement on the tuned model's answers."""

    prompt: int
    """Number of the prompt, from 0."""
    matches: str
    """Regular expression that the answer must contain."""


@dataclass(frozen=True, kw_only=True)
class EvaluationRules:
    """The limits with which a measurement is compared."""

    require: tuple[AnswerPattern, ...] = ()
    rows: int = 0
    """Rows of the held-out split whose loss is measured; 0 without a split."""
    max_eval_loss: float | None = None


@dataclass(frozen=True, kw_only=True)
class RuleOutcome:
    """One rule, and whether it holds."""

    rule: str
    passed: bool
    why: str
    """The values compared."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    verdict: Literal["passed", "failed", "not-judged"]
    """`not-judged`: nothing was compared, because there is neither a rule nor a held-out split."""
    rules: tuple[RuleOutcome, ...] = ()

    @property
    def missed(self) -> tuple[RuleOutcome, ...]:
        return tuple(rule for rule in self.rules if not rule.passed)

    @property
    def summary(self) -> str:
        """Return the verdict in one sentence."""
        match self.verdict:
            case "not-judged":
                return "not judged: the workload has no rule and no held-out split to compare"
            case "passed":
                return f"passed: {len(self.rules)} of {len(self.rules)} rules hold"
            case "failed":
                return f"failed: {'; '.join(f'{rule.rule}: {rule.why}' for rule in self.missed)}"


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Losses of the held-out split; None if it was not measured."""

    base: float | None
    tuned: float | None


def judge_evaluation(
    rules: EvaluationRules, *, answers: tuple[str, ...], losses: Losses, matches: MatchPattern
) -> Judgement:
    """Return the verdict. `answers`: the tuned model's, one a prompt. Without `max_eval_loss` the tuned loss must be
    below the base's."""
    outcomes = (*_answer_rules(rules, answers, matches), *_loss_rules(rules, losses))
    if not outcomes:
        return Judgement(verdict="not-judged")
    return Judgement(verdict="passed" if all(one.passed for one in outcomes) else "failed", rules=outcomes)


def _answer_rules(rules: EvaluationRules, answers: tuple[str, ...], matches: MatchPattern) -> Iterator[RuleOutcome]:
    for required in rules.require:
        rule = f"answer to prompt {required.prompt} matches {required.matches!r}"
        if required.prompt >= len(answers):
            yield RuleOutcome(rule=rule, passed=False, why=f"the workload has {len(answers)} prompts, numbered from 0")
            continue
        yield _matched(required, rule, answers[required.prompt], matches)


def _matched(required: AnswerPattern, rule: str, answer: str, matches: MatchPattern) -> RuleOutcome:
    found = matches(required.matches, (answer,))
    if found is None:
        return RuleOutcome(rule=rule, passed=False, why="the regular expression took too long")
    return RuleOutcome(rule=rule, passed=bool(found), why=f"it answered {_quote_short(answer)}")


def _loss_rules(rules: EvaluationRules, losses: Losses) -> Iterator[RuleOutcome]:
    tuned, base = losses.tuned, losses.base
    if not rules.rows:
        return
    if tuned is None:
        yield RuleOutcome(rule="eval loss", passed=False, why="no row of the split has a target to predict")
    elif rules.max_eval_loss is not None:
        rule = f"eval loss at most {rules.max_eval_loss:g}"
        yield RuleOutcome(rule=rule, passed=tuned <= rules.max_eval_loss, why=f"it is {tuned:.4f}")
    elif base is not None:
        why = f"{tuned:.4f}, the base's {base:.4f}"
        yield RuleOutcome(rule="eval loss below the base's", passed=tuned < base and math.isfinite(tuned), why=why)


def _quote_short(text: str, most: int = 80) -> str:
    return repr(text if len(text) <= most else f"{text[: most - 1]}…")
