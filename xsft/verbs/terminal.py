"""The listener of the command line: what actions report goes to stderr."""

from __future__ import annotations

import sys
from functools import partial
from typing import TextIO

from msgspec.structs import replace

from xsft.cluster.evidence import Evidence
from xsft.evaluation.report import EvaluationReport
from xsft.launch.listener import ActionListener
from xsft.launch.proposal import Proposal
from xsft.machine.clock import monotonic
from xsft.planning.steps import Planned
from xsft.runs.cause_rule import Cause
from xsft.verbs.failure import print_problems
from xsft.verbs.live import CONVERSION_EVERY_S, ConversionDisplay, live, reading_weights, show_conversion
from xsft.verbs.local_text import show_result
from xsft.verbs.progress import print_to_stderr, show_progress, show_spinner
from xsft.verbs.submission import print_created, proposal_lines, resource_lines
from xsft.verbs.why_text import cause_lines, log_lines

TAIL = 20
"""Log lines shown of the process that failed first, if a run fails."""


def terminal(stream: TextIO | None = None, *, as_json: bool = False) -> ActionListener:
    """Return what shows everything on stderr, or trainings on another stream. Submissions are printed on stdout, which
    `as_json` keeps for the document."""
    stream = stream or sys.stderr
    listener = ActionListener(
        working=show_progress,
        waiting=show_spinner,
        say=print_to_stderr,
        warn=print_problems,
        submitting=_print_resources,
        proposed=_print_proposal,
        unexpected=_print_cause,
        training=partial(live, stream=stream, monotonic=monotonic),
        trained=partial(show_result, stream=stream),
        evaluated=partial(_print_report, stream=stream),
        reading=reading_weights,
        converting=show_conversion,
        converting_on_cluster=lambda: ConversionDisplay(print_to_stderr, every_s=CONVERSION_EVERY_S),
    )
    return listener if as_json else replace(listener, created=print_created)


def _print_resources(plan: Planned) -> None:
    sys.stderr.write("\n".join(resource_lines(plan)) + "\n")


def _print_proposal(proposal: Proposal) -> None:
    sys.stderr.writelines(f"{line}\n" for line in proposal_lines(proposal))


def _print_cause(evidence: Evidence, cause: Cause) -> None:
    for line in (*log_lines(evidence, tail=TAIL), *cause_lines(cause)):
        print_to_stderr(line)


def _print_report(report: EvaluationReport, *, stream: TextIO) -> None:
    from xsft.verbs.evaluation_text import print_evaluation  # through rich

    print_evaluation(report, stream=stream)
