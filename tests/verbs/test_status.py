from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from tests.documents import read_document
from tests.observations import FakeRuns, finished, local, observed, queued, runs_read, said
from xsft.base.errors import Unreachable, UsageError
from xsft.runs.lookup import RowFilter, RunsAnswer, RunsRead, require_names
from xsft.verbs.cli import parser
from xsft.verbs.document import request_of
from xsft.verbs.status import report_status

(_SILENT,) = Unreachable("The cluster lab does not answer.", fix="Look at the VPN.").problems
SILENT = replace(_SILENT, severity="warning")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ACTIVE = RowFilter()


def told(runs_there: RunsRead, row_filter: RowFilter = ACTIVE, *, json: bool = False) -> str:
    out = io.StringIO()
    assert report_status(FakeRuns(runs_there), row_filter, json=json, stdout=out) == 0
    return out.getvalue()


STORY = (observed("gemma"), queued("next"), finished("old", at="2026-11-19T00:00:00Z"), local("tiny"))


def test_status_prints_a_row_per_active_or_recent_run(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(runs_read(STORY)).splitlines()
    assert [line.split()[0] for line in lines] == ["RUN", "next", "gemma", "tiny"]
    assert capsys.readouterr().err == "1 more ended over a day ago: xsft status --all\n"


def test_no_runs_is_a_message_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(runs_read()) == ""
    assert capsys.readouterr().err == "no runs\n"


def test_a_cluster_that_does_not_answer_hides_no_other_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(runs_read(STORY, (SILENT,), whole=False))
    assert "gemma" in shown
    assert "does not answer" in capsys.readouterr().err


def test_status_is_unreachable_if_no_cluster_answers() -> None:
    with pytest.raises(Unreachable, match="Nothing could be read: The cluster lab does not answer") as raised:
        told(runs_read((), (SILENT,), answered=False, whole=False))
    assert raised.value.exit_status == 5
    assert raised.value.fix == "Look at the VPN."


def test_a_misspelt_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="Did you mean gemma") as raised:
        told(runs_read(STORY), RowFilter(runs=("gema",)))
    assert raised.value.problem_id == "run-missing"
    assert "xsft status --all" in raised.value.fix
    with pytest.raises(UsageError, match="Did you mean gemma"):
        told(runs_read(STORY), RowFilter(runs=("gem",)))
    with pytest.raises(UsageError) as raised:
        require_names(("elsewhere",), RunsAnswer(rows=(), neighbours=("elsewhere", "elsewhere-2")))
    assert raised.value.message == "No run is named exactly 'elsewhere'. Did you mean elsewhere-2?"


def test_all_names_that_do_not_exist_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        told(runs_read(STORY), RowFilter(runs=("gema", "nixt", "gema", "zzz")))
    messages = [problem.message for problem in raised.value.problems]
    assert [message.partition(".")[0] for message in messages] == [
        f"No run is named exactly {name!r}" for name in ("gema", "nixt", "zzz")
    ]
    assert "Did you mean next" in messages[1]
    with pytest.raises(Unreachable) as silent:
        told(runs_read(STORY, (SILENT,), whole=False), RowFilter(runs=("other", "another")))
    assert len(silent.value.problems) == 2


@pytest.mark.parametrize("json", [False, True])
def test_existing_runs_are_shown_beside_unknown_names(json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    row_filter = RowFilter(runs=("gemma", "zzz", "tiny"))
    assert report_status(FakeRuns(runs_read(STORY)), row_filter, json=json, stdout=out) == UsageError.exit_status
    shown = capsys.readouterr()
    assert "No run is named exactly 'zzz'" in shown.err
    if json:
        answer = read_document("status", shown.out)
        assert [run["run_name"] for run in answer["runs"]] == ["gemma", "tiny"]
        assert [problem["id"] for problem in answer["problems"]] == ["run-missing"]
    else:
        assert [line.split()[0] for line in out.getvalue().splitlines()] == ["RUN", "gemma", "tiny"]


@pytest.mark.parametrize(
    ("row_filter", "hints"),
    [
        (RowFilter(), ["1 more ended over a day ago: xsft status --all"]),
        (RowFilter(everything=True), []),
        (RowFilter(states=("queued",)), ["3 more do not match --state or --mode"]),
        (
            RowFilter(states=("succeeded",)),
            ["1 more ended over a day ago: the same with --all", "2 more do not match --state or --mode"],
        ),
        (RowFilter(states=("saving",)), ["4 more do not match --state or --mode"]),
        (RowFilter(runs=("old",), states=("queued",)), ["no runs"]),
        (RowFilter(runs=("old",)), []),
        (
            RowFilter(runs=("old", "next")),
            ["tensorboard  gs://my-bucket/runs/next/tensorboard", "tensorboard  gs://my-bucket/runs/old/tensorboard"],
        ),
    ],
)
def test_omitted_output_is_named_with_the_option_that_shows_it(
    row_filter: RowFilter, hints: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told(runs_read(STORY), row_filter)
    assert capsys.readouterr().err.splitlines() == hints


def test_a_name_that_may_be_on_a_silent_cluster_is_not_called_missing() -> None:
    with pytest.raises(Unreachable, match="not every cluster could be read"):
        told(runs_read(STORY, (SILENT,), whole=False), RowFilter(runs=("other",)))


def document(
    capsys: pytest.CaptureFixture[str], runs_there: RunsRead, row_filter: RowFilter = ACTIVE
) -> dict[str, Any]:
    assert told(runs_there, row_filter, json=True) == ""
    (line,) = capsys.readouterr().out.splitlines()
    return read_document("status", line)


def test_status_prints_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    answer = document(capsys, runs_read(STORY, (SILENT,), whole=False))
    assert answer["schema"] == "xsft.status/1"
    assert [run["run_name"] for run in answer["runs"]] == ["next", "gemma", "tiny"]
    assert answer["runs"][1]["step"] == 120
    assert answer["runs"][1]["evidence"] == ["jobset", "log"]
    assert answer["problems"][0]["id"] == "unreachable"


def test_a_loss_that_is_no_number_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer = document(capsys, runs_read((observed(progress=said(loss=float("nan"), step_seconds=float("inf"))),)))
    assert answer["runs"][0]["loss"] is None


def test_a_terminal_gets_a_table() -> None:
    out = Terminal()
    report_status(FakeRuns(runs_read(STORY)), RowFilter(), json=False, stdout=out)
    assert "gemma" in out.getvalue()


def arguments(*argv: str) -> Any:
    return parser(only="status").parse_args(("status", *argv))


@pytest.mark.parametrize("argv", [("--watch", "--json"), ("--every", "5s")])
def test_conflicting_options_are_refused(argv: tuple[str, ...]) -> None:
    from xsft.verbs.status import run

    with pytest.raises(UsageError):
        run(arguments(*argv))


def test_the_options_of_status_become_one_filter() -> None:
    args = arguments("a", "b", "--state", "running", "--state", "queued", "--mode", "mcjax", "--all")
    row_filter = RowFilter(runs=("a", "b"), states=("running", "queued"), mode="mcjax", everything=True)
    assert request_of(args, RowFilter) == row_filter
