"""`xsft logs`: what is printed beside the lines. Which log is found: tests/runs/test_run_logs.py."""

from __future__ import annotations

import io

import pytest

from tests.observations import FakeRuns, runs_read
from tests.runs.test_run_logs import FAILED, opened
from xsft.runs.classify import classify
from xsft.runs.log_roles import LogRequest, ProcessRole
from xsft.verbs.cli import parser
from xsft.verbs.wait import log_request, print_log


def test_logs_shows_the_process_that_prints_steps_without_a_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    told = opened()
    runs, out = FakeRuns(told.found), io.StringIO()
    for name, job in (("gemma", "slice-job"), ("deep", "pathways-head")):
        assert print_log(name, request=LogRequest(), runs=runs, logs=told, timestamps=False, stdout=out) == 0
        assert told.roles == [ProcessRole(replicated_job=job, slice_index=0, host=0)]
    assert print_log("gemma", request=LogRequest(), runs=runs, logs=told, timestamps=True, stdout=out) == 0
    assert out.getvalue().splitlines() == ["hello from 0", "hello from 0", "2026-11-21T11:00:00Z hello from 0"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (LogRequest(), "head: it has not started, or its log was deleted with its pod"),
        (LogRequest(tail=0), "head: --tail 0 requests no lines"),
        (
            LogRequest(since_s=600),
            "head in the last 10m: it has printed nothing since, or its log was deleted with its pod",
        ),
    ],
)
def test_an_empty_log_is_reported(capsys: pytest.CaptureFixture[str], asked: LogRequest, why: str) -> None:
    told = opened(empty=True)
    assert (
        print_log("deep", request=asked, runs=FakeRuns(told.found), logs=told, timestamps=False, stdout=io.StringIO())
        == 0
    )
    assert capsys.readouterr().err.splitlines()[0] == f"No log lines from {why}"


def test_options_become_the_request() -> None:
    def requested(*options: str) -> LogRequest:
        return log_request(parser(only="logs").parse_args(("logs", "gemma", *options)))

    assert requested() == LogRequest()
    one = requested("--slice", "1", "--host", "2", "--tail", "3", "--since", "1h", "--follow", "--attempt", "4")
    assert one == LogRequest(slice_index=1, host=2, tail=3, since_s=3600, follow=True, attempt=4)
    assert requested("--all", "--streams", "128") == LogRequest(every=True, at_most=128)


def test_the_end_of_a_followed_run_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    told = opened()
    runs = FakeRuns(told.found, runs_read((FAILED,)), classify=classify)
    for follow in (False, True):
        assert capsys.readouterr().err == ""
        request = LogRequest(follow=follow)
        assert print_log("gemma", request=request, runs=runs, logs=told, timestamps=False, stdout=io.StringIO()) == 0
    end = "-- gemma  failed (trainer-failed)  step 120/1000  loss 2.346: xsft why gemma --\n"
    assert capsys.readouterr().err == end


def test_a_closed_pipe_raises_broken_pipe_error() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    told = opened()
    runs = FakeRuns(told.found)
    with pytest.raises(BrokenPipeError):  # xsft.verbs.cli ends with 141
        print_log("gemma", request=LogRequest(), runs=runs, logs=told, timestamps=False, stdout=Closed())
