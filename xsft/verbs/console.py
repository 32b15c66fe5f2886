"""rich's console, bars and spinners, imported once there is something to show. The colours and cursor moves that it
draws reach the terminal; the texts in it are screened."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from xsft.base.terminal_text import safe_text, wrap_line
from xsft.evaluation.report import EvaluationReport, MeasuredWeights
from xsft.machine.streams import with_controls

STYLES = {"error:": "bold red", "warning:": "bold yellow", "note:": "bold", "fix:": "green", "Unknown:": "green"}
"""First word of a line of a message -> its style."""


def console(stream: TextIO) -> Console:
    """Return a console for this stream, which may be a standard one."""
    return _ScreenedConsole(file=with_controls(stream))


class _ScreenedConsole(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=safe_text(segment.text))

    def on_broken_pipe(self) -> None:
        """Raise the error for xsft.verbs.cli, which ends with 141; rich would end with 1, the status of a bug."""
        raise BrokenPipeError


def spinner(stream: TextIO) -> Progress:
    """Return a spinner with a description and the seconds."""
    return _progress(stream)


def training_bar(stream: TextIO) -> Progress:
    """Return a bar of steps, followed by a description."""
    return _progress(stream, BarColumn(bar_width=14))


def _progress(stream: TextIO, *bar: ProgressColumn) -> Progress:
    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), *bar, text, TimeElapsedColumn())
    # rich would write what is printed to a standard output that is a file on the terminal, too
    return Progress(*columns, console=console(stream), transient=True, redirect_stdout=sys.stdout.isatty())


def draw_messages(messages: Iterable[Sequence[str]], stream: TextIO) -> None:
    """Draw messages with a blank line between two, each line wrapped with a hanging indent."""
    screen = console(stream)
    for number, lines in enumerate(messages):
        if number:
            screen.print()
        for line in lines:
            text = Text("\n".join(wrap_line(line, width=screen.width)))
            first = line.split()[0]
            text.stylize(STYLES.get(first, ""), 0, line.index(first) + len(first))
            text.highlight_regex(r"\[[a-z0-9-]+\]$", "cyan")
            screen.print(text, soft_wrap=True, highlight=False)


LONGEST = 400
"""Characters of a prompt or an answer in the table; evaluation.json has all of it."""


def print_evaluation(report: EvaluationReport, *, stream: TextIO) -> None:
    """Print the table, the rules and the verdict."""
    screen = console(stream)
    table = Table("prompt", "base", "tuned", show_lines=True)
    base = report.base
    tuned = report.tuned
    for prompt, base_answer, tuned_answer in zip(report.prompts, base.answers, tuned.answers, strict=True):
        texts = (prompt[-1].content, base_answer.text, tuned_answer.text)
        table.add_row(*(Text(_shorten_answer(text)) for text in texts))
    if tuned.rows:
        label = f"eval loss ({tuned.targets:,} tokens of {tuned.rows} rows)"
        table.add_row(Text(label), Text(_loss(base)), Text(_loss(tuned)))
    screen.print(table)
    for rule in report.judgement.rules:
        screen.print(Text(f"{'holds ' if rule.passed else 'missed'}  {rule.rule}: {rule.why}"))
    screen.print(Text(f"verdict {report.judgement.verdict}"))


def _loss(measured: MeasuredWeights) -> str:
    return "not finite" if measured.loss is None else f"{measured.loss:.4f}"


def _shorten_answer(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
