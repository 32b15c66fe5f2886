"""What the pinned libraries print when they fail (tests/failures/logs) leads to its cause, and to no other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.seen import pod, pods, terminated
from tests.runs.test_causes import failing
from tests.tools.failure_logs import CASES
from xsft.cluster.evidence import Evidence, Log
from xsft.runs.causes import explain_state, log_rules
from xsft.runs.classify import classify
from xsft.runs.failures import diagnose

LOGS = Path(__file__).with_name("logs")
FILES = sorted(LOGS.rglob("*.log"))
LINES = {file: tuple(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
GENERAL = {"exception", "hub-unreachable", "peer-lost"}
"""Causes that stand behind more exact ones in the table, and match their logs too."""
WENT_ON = "I1 x] completed step: 4, seconds: 0.2, loss: 6.1"

of_each_log = pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name} {file.stem}" for file in FILES])


@of_each_log
def test_a_kept_log_has_one_direct_cause(file: Path) -> None:
    failed = pod(0, 2, "Failed", containers=(terminated(1, finished_at="2026-11-21T11:49:50Z"),))
    log = Log(
        replicated_job="slice-job",
        slice_index=0,
        host=2,
        pod=failed.name,
        lines=LINES[file],
        said=diagnose(LINES[file]),
    )
    failing_jobset = failing("FailJobSetFailurePolicyAction", pods=pods((failed,)))
    explanation = explain_state(Evidence(seen=failing_jobset, status=classify(failing_jobset), logs=(log,)))
    causes = (explanation.cause, *explanation.others)
    assert [cause.id for cause in causes if cause.basis == "direct"] == [file.parent.name]


@of_each_log
def test_no_rule_alone_sees_its_cause_in_another_ones_log(file: Path) -> None:
    alone = {
        rule.id for rule in log_rules() if (diagnosis := diagnose(LINES[file], rules=(rule,))) and not diagnosis.earlier
    }
    assert file.parent.name in alone
    assert alone - GENERAL <= {file.parent.name}


@of_each_log
def test_what_a_process_survived_is_never_its_cause(file: Path) -> None:
    for survived in (
        kept_file for kept_file in FILES if kept_file.parent.name != "told-to-stop"
    ):  # no process survives SIGKILL
        diagnosis = diagnose((*LINES[survived], WENT_ON, *LINES[file]))
        assert diagnosis is not None
        assert (diagnosis.kind, diagnosis.earlier) == (file.parent.name, False), survived


SEEMING = (
    ("login-refused", "google.auth.exceptions.TransportError: HTTPSConnectionPool(host='x'): Max retries exceeded"),
    ("login-refused", "google.auth.exceptions.RefreshError: ('Service Unavailable. Content is:\\n<html>', None)"),
    ("hub-unreachable", "LocalEntryNotFoundError: Cannot find the files and outgoing traffic has been disabled."),
    ("hub-unreachable", "httpx.ConnectError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"),
    ("hub-denied", "requests.exceptions.HTTPError: 401 Client Error: x for url: https://api.example.com/huggingface"),
    ("bucket-busy", "google.api_core.exceptions.TooManyRequests: 429 GET https://logging.googleapis.com/v2/storage: x"),
    ("disk-full", "OSError: [Errno 28] inotify watch limit reached"),
    ("disk-full", "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'"),
    ("not-a-number", "Aborting training due to target loss reached."),
)
"""Lines of libraries that look like the cause, and are not it."""


@pytest.mark.parametrize(("cause", "line"), SEEMING)
def test_a_line_that_only_looks_like_a_cause_is_not_told_as_it(cause: str, line: str) -> None:
    frames = (
        "Traceback (most recent call last):",
        '  File "/site-packages/huggingface_hub/x.py", line 1, in f',
        "    x",
    )
    diagnosis = diagnose((*frames, line))
    assert diagnosis is None or diagnosis.kind != cause


def test_each_case_of_the_tool_has_its_kept_log() -> None:
    case_names = {f"{cause}/{case.name}" for case in CASES for cause in (case.cause, case.others) if cause}
    assert case_names == {f"{file.parent.name}/{file.stem}" for file in FILES}


def test_kept_logs_name_no_machine() -> None:
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        assert f"{Path.home()}/" not in text, file
        assert f"{Path(__file__).parents[2]}/" not in text, file
        assert len(text) < 60_000, file
