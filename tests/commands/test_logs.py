"""`xsft logs`: what is printed beside the lines. Which log is found: tests/actions/runs/test_logs.py."""

from __future__ import annotations

import io

import pytest

from tests.actions.runs.test_logs import FAILED, opened
from tests.observations import NOW, judged, runs_read
from xsft.actions.runs.log_request import LogRequest
from xsft.actions.runs.logs import LogsWorld
from xsft.commands.logs import log_request, logs
from xsft.commands.verbs import parser
from xsft.effects.runs.logstream import ProcessRole
from xsft.run_query import RunQuery
from xsft.states.classify import classify
from xsft.states.folding import RowFilter


def test_logs_shows_the_process_that_prints_steps_without_a_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    told = opened()
    query = RunQuery(read=lambda: told.found, classify=judged, wanted=RowFilter(everything=True), now=lambda: NOW)
    world, out = LogsWorld(query=query, lines=told.lines, local_lines=told.local), io.StringIO()
    for name, job in (("gemma", "slice-job"), ("deep", "pathways-head")):
        assert logs(name, asked=LogRequest(), world=world, timestamps=False, stdout=out) == 0
        assert told.roles == [ProcessRole(replicated_job=job, slice_index=0, host=0)]
    assert logs("gemma", asked=LogRequest(), world=world, timestamps=True, stdout=out) == 0
    assert out.getvalue().splitlines() == ["hello from 0", "hello from 0", "2026-11-21T11:00:00Z hello from 0"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (LogRequest(), "head: it has not started, or its log was deleted with its pod"),
        (LogRequest(tail=0), "head: --tail 0 requests no lines"),
        (LogRequest(since=NOW), f"head since {NOW}: it has printed nothing since, or its log was deleted with its pod"),
    ],
)
def test_an_empty_log_is_reported(capsys: pytest.CaptureFixture[str], asked: LogRequest, why: str) -> None:
    told = opened()
    query = RunQuery(read=lambda: told.found, classify=judged, wanted=RowFilter(everything=True), now=lambda: NOW)
    world = LogsWorld(query=query, lines=lambda *_: iter(()), local_lines=told.local)
    assert logs("deep", asked=asked, world=world, timestamps=False, stdout=io.StringIO()) == 0
    assert capsys.readouterr().err.splitlines()[0] == f"No log lines from {why}"


def test_options_become_the_request() -> None:
    def requested(*options: str) -> LogRequest:
        return log_request(parser(only="logs").parse_args(("logs", "gemma", *options)), now=NOW)

    assert requested() == LogRequest()
    one = requested("--slice", "1", "--host", "2", "--tail", "3", "--since", "1h", "--follow", "--attempt", "4")
    since = "2026-11-21T11:00:00Z"
    assert one == LogRequest(slice_index=1, host=2, tail=3, since=since, follow=True, attempt=4)
    assert requested("--all", "--streams", "128") == LogRequest(every=True, at_most=128)


def test_the_end_of_a_followed_run_is_printed() -> None:
    told, said = opened(), list[str]()
    left = [told.found, runs_read((FAILED,))]
    query = RunQuery(
        read=lambda: left.pop(0) if len(left) > 1 else left[0],
        classify=classify,
        wanted=RowFilter(everything=True),
        now=lambda: NOW,
    )
    world = LogsWorld(query=query, lines=told.lines, local_lines=told.local, say=said.append)
    for follow in (False, True):
        assert said == []
        request = LogRequest(follow=follow)
        assert logs("gemma", asked=request, world=world, timestamps=False, stdout=io.StringIO()) == 0
    assert said == ["-- gemma  failed (trainer-failed)  step 120/1000  loss 2.346: xsft why gemma --"]


def test_a_closed_pipe_raises_broken_pipe_error() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    told = opened()
    query = RunQuery(read=lambda: told.found, classify=judged, wanted=RowFilter(everything=True), now=lambda: NOW)
    world = LogsWorld(query=query, lines=told.lines, local_lines=told.local)
    with pytest.raises(BrokenPipeError):  # xsft.cli ends with 141
        logs("gemma", asked=LogRequest(), world=world, timestamps=False, stdout=Closed())
