from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.documents import read_document
from tests.observations import FakeRuns
from tests.runs.test_compare import FOUND, read
from xsft.base.errors import Refused, UsageError
from xsft.verbs.compare import compare


def compared(*names: str, target: Path | None = None, json: bool = False) -> int:
    return compare(names, runs=FakeRuns(FOUND), read=read, target=target, json=json)


def test_compare_prints_one_plot_and_a_line_per_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert compared("gemma", "tiny", "silent", "new") == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[-3:] == [f"{letter} against a: no record, so differences are unknown" for letter in "bcd"]
    assert lines[-7:-3] == [
        "a  gemma   40 losses from metrics and log, steps 1 to 40, 6.900 -> 3.000",
        "b  tiny    2 losses from record, steps 1 to 40, 6.000 -> 3.000",
        "c  silent  no loss could be read",
        "d  new     no loss yet",
    ]
    assert lines[0].strip() == "loss"
    assert "log: timeout" in captured.err
    assert "losses-not-read" in captured.err


def test_compare_writes_a_png_and_overwrites_no_file(tmp_path: Path) -> None:
    target = tmp_path / "loss.png"
    assert compared("gemma", "tiny", target=target) == 0
    written = target.read_bytes()
    assert written.startswith(b"\x89PNG")
    with pytest.raises(Refused, match="does not overwrite files"):
        compared("gemma", target=target)
    assert target.read_bytes() == written
    with pytest.raises(UsageError, match="PNG"):
        compared("gemma", target=tmp_path / "loss.jpg")


def test_compare_takes_exact_names_and_at_most_26() -> None:
    with pytest.raises(UsageError, match="Did you mean gemma"):
        compared("gemm")
    with pytest.raises(UsageError, match="at most 26"):
        compared(*(f"run-{n}" for n in range(27)))


def test_compare_prints_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared("nan", "silent", target=tmp_path / "loss.png", json=True) == 0
    (line,) = capsys.readouterr().out.splitlines()
    document = read_document("compare", line)
    assert document["runs"][0]["points"] == [{"step": 2, "loss": 2.0}]
    assert document["runs"][1]["unread"] == ["log: timeout"]
    assert document["plot"].endswith("loss.png")


def test_a_run_that_resumed_is_not_compared_silently(capsys: pytest.CaptureFixture[str]) -> None:
    assert compared("gemma", "twice", "mixed") == 0
    captured = capsys.readouterr()
    twice, mixed = captured.out.splitlines()[-4:-2]
    assert twice.endswith("6.900 -> 3.000, resumed from step 10 (reshuffled), resumed from step 20 (repeated)")
    assert mixed.endswith("6.900 -> 3.000, resumed from step 10 (reshuffled)")
    assert "After step 20 it read the same rows again" in captured.err
    assert compared("gemma", "twice", "mixed", json=True) == 0
    document = read_document("compare", capsys.readouterr().out)
    assert [run_row["resumed"] for run_row in document["runs"]] == [
        [],
        [{"step": 10, "order": "reshuffled"}, {"step": 20, "order": "repeated"}],
        [{"step": 10, "order": "reshuffled"}],
    ]
    assert [(p["id"], p["where"], p["severity"]) for p in document["problems"]] == [
        ("resumed-repeated", "twice", "warning"),
        ("resumed-rows", "mixed", "note"),
    ]


def test_differences_between_the_runs_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert compared("slow", "fast", "slow") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["b against a: train.learning_rate: unset -> 0.1", "c against a: the same workload"]
    assert compared("slow", "fast", "gemma", json=True) == 0
    shown = capsys.readouterr().out
    read_document("compare", shown)
    differs = [run["differs"] for run in json.loads(shown)["runs"]]
    assert differs == [[], ["train.learning_rate: unset -> 0.1"], None]
