"""The listener of the command line: what actions report goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TextIO

from xsft.actions.listener import ConversionView, ProgressView
from xsft.aliases import ShowLine
from xsft.conversion.plan import ConversionPlan
from xsft.effects.local.run import LocalResult
from xsft.effects.machine.clock import monotonic
from xsft.effects.submit.proposal import Proposal
from xsft.evaluation.report import EvaluationReport
from xsft.problems import Problem
from xsft.screen.convert_progress import EVERY_S, ConversionDisplay, converting, reading_weights
from xsft.screen.failure import print_problems
from xsft.screen.live import live
from xsft.screen.local_text import show_result
from xsft.screen.progress import print_to_stderr, shown, spinning
from xsft.screen.submission_text import proposal_lines, resource_lines
from xsft.screen.why_text import cause_lines, log_lines
from xsft.states.evidence import Evidence
from xsft.states.rule import Cause
from xsft.steps import Plan, Planned
from xsft.trainers.lines import TrainerEvent

TAIL = 20
"""Log lines shown of the process that failed first, if a run fails."""


class Terminal:
    """The terminal, or the stream that takes its place."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def working(self, title: str) -> AbstractContextManager[ProgressView]:
        return shown(title)

    def waiting(self, title: str, line: str) -> AbstractContextManager[ShowLine]:
        return spinning(title, line)

    def say(self, line: str) -> None:
        print_to_stderr(line)

    def warn(self, problems: Iterable[Problem]) -> None:
        print_problems(problems)

    def submitting(self, plan: Planned) -> None:
        sys.stderr.write("\n".join(resource_lines(plan)) + "\n")

    def proposed(self, proposal: Proposal) -> None:
        sys.stderr.writelines(f"{line}\n" for line in proposal_lines(proposal))

    def unexpected(self, evidence: Evidence, cause: Cause) -> None:
        for line in (*log_lines(evidence, tail=TAIL), *cause_lines(cause)):
            self.say(line)

    def training(self, *, steps: int) -> AbstractContextManager[Callable[[TrainerEvent], None]]:
        return live(steps=steps, stream=self._stream, monotonic=monotonic)

    def trained(self, plan: Plan, result: LocalResult, picture: Path | None) -> None:
        show_result(plan, result, picture=picture, stream=self._stream)

    def evaluated(self, report: EvaluationReport) -> None:
        from xsft.screen.evaluation_text import print_evaluation  # through rich

        print_evaluation(report, stream=self._stream)

    def reading(self) -> AbstractContextManager[ConversionView]:
        return reading_weights()

    def converting(self, plan: ConversionPlan) -> AbstractContextManager[ConversionView]:
        return converting(plan)

    def converting_on_cluster(self) -> ConversionView:
        return ConversionDisplay(self.say, every_s=EVERY_S)
