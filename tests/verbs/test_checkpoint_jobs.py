"""The options of a CPU job become one request."""

from __future__ import annotations

import argparse

import pytest

from xsft.base.errors import UsageError
from xsft.stages.cluster_job import JobRequest
from xsft.verbs.checkpoint_jobs import cluster_call, refuse_timeout_alone
from xsft.verbs.cli import parser
from xsft.verbs.document import request_of

ACTIONS = ("convert", "export")


def parsed(action: str, *options: str) -> argparse.Namespace:
    return parser(only="checkpoint").parse_args(("checkpoint", action, "w.yaml", *options))


@pytest.mark.parametrize("action", ACTIONS)
def test_a_cpu_job_request_has_the_options_of_the_command_line(action: str) -> None:
    args = parsed(action, "--dry-run", "--wait", "--timeout=2h", "--poll=3s", "--yes")
    assert request_of(args, JobRequest) == JobRequest(dry_run=True, wait=True, timeout_s=7200.0)
    assert (cluster_call(args).ask, cluster_call(args).poll_s) == (None, 3.0)
    assert request_of(parsed(action), JobRequest) == JobRequest(dry_run=False, wait=False)


@pytest.mark.parametrize("action", ACTIONS)
def test_timeout_without_wait_is_refused(action: str) -> None:
    refuse_timeout_alone(parsed(action))
    refuse_timeout_alone(parsed(action, "--wait", "--timeout=2h"))
    with pytest.raises(UsageError, match="--timeout needs --wait"):
        refuse_timeout_alone(parsed(action, "--timeout=2h"))
