"""The options of a CPU job become one request."""

from __future__ import annotations

import argparse

import pytest

from xsft.base.errors import UsageError
from xsft.runs.waiting import WaitLimits
from xsft.verbs.table import parser
from xsft.verbs.weights_job import cpu_job_request, refuse_timeout_alone

ACTIONS = ("convert", "export")


def parsed(action: str, *options: str) -> argparse.Namespace:
    return parser(only="checkpoint").parse_args(("checkpoint", action, "w.yaml", *options))


@pytest.mark.parametrize("action", ACTIONS)
def test_a_cpu_job_request_has_the_options_of_the_command_line(action: str) -> None:
    request = cpu_job_request(parsed(action, "--dry-run", "--wait", "--timeout=2h", "--poll=3s", "--yes"))
    assert (request.dry_run, request.waits, request.ask) == (True, True, None)
    assert request.limits == WaitLimits(timeout_s=7200.0, poll_s=3.0)
    plain = cpu_job_request(parsed(action))
    assert (plain.dry_run, plain.waits, plain.limits.timeout_s) == (False, False, None)


@pytest.mark.parametrize("action", ACTIONS)
def test_timeout_without_wait_is_refused(action: str) -> None:
    refuse_timeout_alone(parsed(action))
    refuse_timeout_alone(parsed(action, "--wait", "--timeout=2h"))
    with pytest.raises(UsageError, match="--timeout needs --wait"):
        refuse_timeout_alone(parsed(action, "--timeout=2h"))
