"""The table of an evaluation: each prompt with the answers of the base and the tuned weights, the losses, the rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from rich.table import Table
from rich.text import Text

from xsft.evaluation.report import EvaluationReport, MeasuredWeights
from xsft.verbs.console import console

LONGEST = 400
"""Characters of a prompt or an answer in the table; evaluation.json has all of it."""


def print_evaluation(report: EvaluationReport, *, stream: TextIO) -> None:
    """Print the table, the rules and the verdict."""
    screen = console(stream)
    screen.print(table(report))
    for line in lines(report):
        screen.print(Text(line))


def table(report: EvaluationReport) -> Table:
    made = Table("prompt", "base", "tuned", show_lines=True)
    answers = zip(report.prompts, report.base.answers, report.tuned.answers, strict=True)
    for prompt, base, tuned in answers:
        made.add_row(*(Text(_shorten_answer(text)) for text in (prompt[-1].content, base.text, tuned.text)))
    if report.tuned.rows:
        made.add_row(Text(_loss_label(report.tuned)), Text(_loss(report.base)), Text(_loss(report.tuned)))
    return made


def lines(report: EvaluationReport) -> Iterator[str]:
    """Yield a line for each rule, then the verdict."""
    for rule in report.judgement.rules:
        yield f"{'holds ' if rule.passed else 'missed'}  {rule.rule}: {rule.why}"
    yield f"verdict {report.judgement.verdict}"


def _loss_label(tuned: MeasuredWeights) -> str:
    return f"eval loss ({tuned.targets:,} tokens of {tuned.rows} rows)"


def _loss(measured: MeasuredWeights) -> str:
    return "not finite" if measured.loss is None else f"{measured.loss:.4f}"


def _shorten_answer(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
