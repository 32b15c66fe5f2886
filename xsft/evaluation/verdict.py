"""The verdict over a measurement: each rule of the workload, and what follows of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from msgspec import Struct

from xsft.evaluation.inputs import AnswerPattern, EvaluationInputs
from xsft.stages.stage import StageVerdict

Matches = Callable[[str, str], bool | None]
"""(regular expression, text) -> whether it is found; None if that took too long."""


class RuleOutcome(Struct, frozen=True, kw_only=True):
    """One rule, and whether it holds."""

    rule: str
    passed: bool
    why: str
    """The values compared."""


class Judgement(Struct, frozen=True, kw_only=True):
    verdict: StageVerdict
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


class Losses(Struct, frozen=True, kw_only=True):
    """Losses of the held-out split; None if it was not measured."""

    base: float | None
    tuned: float | None


def judge(inputs: EvaluationInputs, *, answers: tuple[str, ...], losses: Losses, matches: Matches) -> Judgement:
    """Return the verdict. `answers`: the tuned model's, one a prompt. Without `max_eval_loss` the tuned loss must be
    below the base's."""
    rules = (*_answer_rules(inputs, answers, matches), *_loss_rules(inputs, losses))
    if not rules:
        return Judgement(verdict="not-judged")
    return Judgement(verdict="passed" if all(rule.passed for rule in rules) else "failed", rules=rules)


def _answer_rules(inputs: EvaluationInputs, answers: tuple[str, ...], matches: Matches) -> Iterator[RuleOutcome]:
    for required in inputs.require:
        rule = f"answer to prompt {required.prompt} matches {required.matches!r}"
        if required.prompt >= len(answers):
            yield RuleOutcome(rule=rule, passed=False, why=f"there are {len(answers)} prompts, numbered from 0")
            continue
        yield _matched(required, rule, answers[required.prompt], matches)


def _matched(required: AnswerPattern, rule: str, answer: str, matches: Matches) -> RuleOutcome:
    match matches(required.matches, answer):
        case True:
            return RuleOutcome(rule=rule, passed=True, why=f"it answered {_shortened(answer)}")
        case False:
            return RuleOutcome(rule=rule, passed=False, why=f"it answered {_shortened(answer)}")
        case None:
            return RuleOutcome(rule=rule, passed=False, why="the regular expression took too long")


def _loss_rules(inputs: EvaluationInputs, losses: Losses) -> Iterator[RuleOutcome]:
    tuned, base = losses.tuned, losses.base
    if not inputs.rows:
        return
    if tuned is None:
        yield RuleOutcome(rule="eval loss", passed=False, why="no row of the split has a target to predict")
    elif inputs.max_eval_loss is not None:
        rule = f"eval loss at most {inputs.max_eval_loss:g}"
        yield RuleOutcome(rule=rule, passed=tuned <= inputs.max_eval_loss, why=f"it is {tuned:.4f}")
    elif base is not None:
        why = f"{tuned:.4f}, the base's {base:.4f}"
        yield RuleOutcome(rule="eval loss below the base's", passed=tuned < base and math.isfinite(tuned), why=why)


def _shortened(text: str, most: int = 80) -> str:
    return repr(text if len(text) <= most else f"{text[: most - 1]}…")
