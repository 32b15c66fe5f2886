"""`xsft why`: text, document and exit status. What is explained: tests/runs/test_read_evidence_explain.py."""

from __future__ import annotations

from typing import Any

import pytest

from tests.documents import read_document
from tests.observations import NOW, runs_read
from tests.runs.test_read_evidence_explain import BROKEN, WAITING, explain
from xsft.cluster.observation import Observation
from xsft.runs.lookup import RunsRead
from xsft.verbs.why import report_why


def asked(name: str, runs_there: RunsRead, *, json: bool = False) -> int:
    return report_why(explain(name, runs_there), json=json)


def test_the_cause_comes_first_then_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("gemma", runs_read((BROKEN,))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("gemma is failed (trainer-failed), step 3 of 1000 (source: jobset")
    assert lines[1] == ""
    assert "stepz" in lines[2]
    assert "  where: slice 0 host 5 (pod gemma-slice-job-0-5-xtx22)" in lines
    assert sum(line.startswith("next: ") for line in lines) == 1
    assert lines.index(next(line for line in lines if line.startswith("next: "))) < 8


def test_a_queued_run_shows_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("next", runs_read((WAITING,))) == 0
    out = capsys.readouterr().out
    assert out.startswith("next is queued")
    assert "512 more" in out
    assert "next: " in out


def test_why_prints_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    asked("gemma", runs_read((BROKEN,)))
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert "  > MAXTEXT CONFIG ERROR: unknown key stepz token" in out


def test_the_document_of_why_has_no_colour_codes(capsys: pytest.CaptureFixture[str]) -> None:
    asked("gemma", runs_read((BROKEN,)), json=True)
    assert document(capsys)["cause"]["evidence"][0].startswith("MAXTEXT CONFIG ERROR: unknown key stepz token")


def test_no_secret_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        asked("gemma", runs_read((BROKEN,)), json=as_json)
        captured = capsys.readouterr()
        assert "stepz" in captured.out
        assert "a" * 30 not in captured.out + captured.err


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = capsys.readouterr().out.splitlines()
    return read_document("why", line)


def test_why_prints_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("gemma", runs_read((BROKEN,)), json=True) == 0
    printed = document(capsys)
    assert (printed["state"], printed["cause"]["id"], printed["exit_status"]) == ("failed", "config-error", 0)
    assert printed["cause"]["where"].startswith("slice 0 host 5")


def test_why_exits_8_for_an_unknown_state(capsys: pytest.CaptureFixture[str]) -> None:
    gone = Observation(run_name="gone", target="xpk", observed_at=NOW, cluster="lab")
    assert asked("gone", runs_read((gone,)), json=True) == 8
    assert document(capsys)["state"] == "unknown"
