"""The listener of the command line: what actions report goes to stderr."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TextIO

from xsft.base.reporting import Reporter, TakeEvent
from xsft.cluster.evidence import Evidence
from xsft.evaluation.report import EvaluationReport
from xsft.launch.identity import Proposal
from xsft.launch.local_run import TrainedHere, TrainingHere
from xsft.launch.submission import Submission
from xsft.launch.submit import SubmissionBegins, SubmissionEvent
from xsft.launch.wait_for_end import UnexpectedEnd
from xsft.machine.clock import monotonic
from xsft.runs.cause_rule import Cause
from xsft.stages.convert_stage import ConvertingOnCluster, ReadingWeights
from xsft.verbs.failure import print_problems
from xsft.verbs.live import CONVERSION_EVERY_S, ConversionDisplay, live, reading_weights, show_conversion
from xsft.verbs.local_text import show_result
from xsft.verbs.progress import print_to_stderr, show_progress, show_spinner
from xsft.verbs.submission import print_created, proposal_lines, resource_lines
from xsft.verbs.why_text import cause_lines, log_lines
from xsft.weights.conversion_plan import ConversionPlan

TAIL = 20
"""Log lines shown of the process that failed first, if a run fails."""


ShownEvent = SubmissionEvent | UnexpectedEnd | TrainedHere | EvaluationReport
Activity = TrainingHere | ReadingWeights | ConversionPlan | ConvertingOnCluster


def terminal(stream: TextIO | None = None, *, as_json: bool = False) -> Reporter:
    """Return what shows everything on stderr, or trainings on another stream. Submissions are printed on stdout, which
    `as_json` keeps for the document."""
    stream = stream or sys.stderr
    return Reporter(
        working=show_progress,
        waiting=show_spinner,
        say=print_to_stderr,
        warn=print_problems,
        tell=partial(_show_event, stream=stream, as_json=as_json),
        display=partial(_show_activity, stream=stream),
    )


def _show_event(event: ShownEvent, *, stream: TextIO, as_json: bool) -> None:
    match event:
        case SubmissionBegins(plan=plan):
            sys.stderr.writelines(f"{line}\n" for line in resource_lines(plan))
        case Proposal():
            sys.stderr.writelines(f"{line}\n" for line in proposal_lines(event))
        case Submission():
            if not as_json:
                print_created(event)
        case UnexpectedEnd(evidence=evidence, cause=cause):
            _print_cause(evidence, cause)
        case TrainedHere(plan=plan, result=result, picture=picture):
            show_result(plan, result, picture, stream=stream)
        case EvaluationReport():
            _print_report(event, stream=stream)


def _show_activity(activity: Activity, *, stream: TextIO) -> AbstractContextManager[TakeEvent]:
    match activity:
        case TrainingHere(steps=steps):
            return live(steps, stream=stream, monotonic=monotonic)
        case ReadingWeights():
            return reading_weights()
        case ConversionPlan():
            return show_conversion(activity)
        case ConvertingOnCluster():
            return nullcontext(ConversionDisplay(print_to_stderr, every_s=CONVERSION_EVERY_S))


def _print_cause(evidence: Evidence, cause: Cause) -> None:
    for line in (*log_lines(evidence, tail=TAIL), *cause_lines(cause)):
        print_to_stderr(line)


def _print_report(report: EvaluationReport, *, stream: TextIO) -> None:
    from xsft.verbs.evaluation_text import print_evaluation  # through rich

    print_evaluation(report, stream=stream)
