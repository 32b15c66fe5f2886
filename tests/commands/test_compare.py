from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.documents import read_document
from tests.observations import NOW, Read, judged, local, observed
from tests.observations import said as said_of
from tests.replacing import replace
from xsft.actions.runs.compare import CompareWorld
from xsft.commands.compare import compare
from xsft.effects.runs.losses import LossCurve
from xsft.errors import Refused, Unknown, UsageError
from xsft.run_query import RunQuery
from xsft.states.folding import FoldedRun, RowFilter
from xsft.states.model import Observation, Status

FALLING = {step: 7.0 - step / 10 for step in range(1, 41)}
CURVES = {
    "gemma": LossCurve(run_name="gemma", points=FALLING, sources=("metrics", "log")),
    "tiny": LossCurve(run_name="tiny", points={1: 6.0, 40: 3.0}, sources=("record",)),
    "silent": LossCurve(run_name="silent", points={}, problems=("log: timeout",)),
    "new": LossCurve(run_name="new", points={}),
    "twice": LossCurve(run_name="twice", points=FALLING, resumed={20: "repeated", 10: "reshuffled"}, sources=("log",)),
    "mixed": LossCurve(run_name="mixed", points=FALLING, resumed={10: "reshuffled"}, sources=("record",)),
    "slow": LossCurve(run_name="slow", points=FALLING, spec={"name": "slow", "train": {"steps": 40}}),
    "fast": LossCurve(
        run_name="fast", points=FALLING, spec={"name": "fast", "train": {"steps": 40, "learning_rate": 0.1}}
    ),
    "nan": LossCurve(run_name="nan", points={1: float("nan"), 2: 2.0}, sources=("log",)),
}
OTHERS = ("silent", "new", "nan", "twice", "mixed", "slow", "fast")
FOUND = Read((observed("gemma"), *map(observed, OTHERS), local("tiny")))


def read(runs: Sequence[FoldedRun]) -> tuple[LossCurve, ...]:
    return tuple(CURVES[run.row.run_name] for run in runs)


def compared(*names: str, target: Path | None = None, json: bool = False) -> int:
    query = RunQuery(read=lambda: FOUND, classify=judged, wanted=RowFilter(everything=True), now=lambda: NOW)
    return compare(names, world=CompareWorld(query=query, read=read), target=target, json=json)


def test_one_plot_and_a_line_per_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert compared("gemma", "tiny", "silent", "new") == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[-3:] == [f"{letter} against a: no record, so differences are unknown" for letter in "bcd"]
    assert lines[-7:-3] == [
        "a  gemma   40 losses from metrics and log, steps 1 to 40, 6.900 -> 3.000",
        "b  tiny    2 losses from record, steps 1 to 40, 6.000 -> 3.000",
        "c  silent  no loss could be read",
        "d  new     no loss yet",
    ]
    assert lines[0].strip() == "loss"
    assert "log: timeout" in said.err
    assert "losses-not-read" in said.err


def test_a_run_that_learned_nothing_is_not_compared_silently(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = replace(observed("gemma"), progress=said_of(no_target_steps=40))

    def failed(seen: Observation, *, now: str) -> Status:
        return Status(state="failed", reason="no-target-tokens" if seen.run_name == "gemma" else "trainer-failed")

    found = Read((nothing, local("tiny")))
    query = RunQuery(read=lambda: found, classify=failed, wanted=RowFilter(everything=True), now=lambda: NOW)
    assert compare(("gemma", "tiny"), world=CompareWorld(query=query, read=read), target=None, json=True) == 0
    shown = capsys.readouterr().out
    read_document("compare", shown)
    problems = json.loads(shown)["problems"]
    assert [(one["id"], one["where"]) for one in problems] == [("no-target-tokens", "gemma")]
    assert "40 steps in a row" in problems[0]["message"]


def test_a_picture_that_overwrites_nothing(tmp_path: Path) -> None:
    target = tmp_path / "loss.png"
    assert compared("gemma", "tiny", target=target) == 0
    written = target.read_bytes()
    assert written.startswith(b"\x89PNG")
    with pytest.raises(Refused, match="does not overwrite files"):
        compared("gemma", target=target)
    assert target.read_bytes() == written
    with pytest.raises(UsageError, match="PNG"):
        compared("gemma", target=tmp_path / "loss.jpg")


def test_nothing_to_draw_is_unknown() -> None:
    with pytest.raises(Unknown, match="silent: log: timeout; new: no output yet"):
        compared("silent", "new")


def test_names_are_exact_and_not_more_than_letters() -> None:
    with pytest.raises(UsageError, match="Did you mean gemma"):
        compared("gemm")
    with pytest.raises(UsageError, match="at most 26"):
        compared(*(f"run-{n}" for n in range(27)))


def test_all_names_that_do_not_exist_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        compared("gema", "gemma", "zzz")
    assert [problem.message[:26] for problem in raised.value.problems] == [
        "No run is named exactly 'g",
        "No run is named exactly 'z",
    ]


def test_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared("nan", "silent", target=tmp_path / "loss.png", json=True) == 0
    (line,) = capsys.readouterr().out.splitlines()
    read_document("compare", line)
    made = json.loads(line)
    assert made["runs"][0]["points"] == [{"step": 2, "loss": 2.0}]
    assert made["runs"][1]["unread"] == ["log: timeout"]
    assert made["plot"].endswith("loss.png")


def test_a_run_that_resumed_is_not_compared_silently(capsys: pytest.CaptureFixture[str]) -> None:
    assert compared("gemma", "twice", "mixed") == 0
    said = capsys.readouterr()
    twice, mixed = said.out.splitlines()[-4:-2]
    assert twice.endswith("6.900 -> 3.000, resumed from step 10 (reshuffled), resumed from step 20 (repeated)")
    assert mixed.endswith("6.900 -> 3.000, resumed from step 10 (reshuffled)")
    assert "After step 20 it read the same rows again" in said.err
    assert compared("gemma", "twice", "mixed", json=True) == 0
    made = json.loads(capsys.readouterr().out)
    read_document("compare", made)
    assert [one["resumed"] for one in made["runs"]] == [
        [],
        [{"step": 10, "order": "reshuffled"}, {"step": 20, "order": "repeated"}],
        [{"step": 10, "order": "reshuffled"}],
    ]
    assert [(p["id"], p["where"], p["severity"]) for p in made["problems"]] == [
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
