"""`compare RUN --baseline LAST:N`: what it reads beside the output, and how often it is wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean

import pytest

from tests.documents import read_document
from tests.inprocess import xsft
from xsft.records.document import to_json
from xsft.records.record import Attempt, Outcome, Record
from xsft.runs.compare import LossCurve
from xsft.runs.compare_baseline import LEAST, MOST, judge_run
from xsft.verbs.cli import main

SEEDS = Path(__file__).parents[1] / "fixtures" / "noise" / "tiny_local.json"
"""Losses of 20 runs of workloads/tiny_local.yaml with other seeds."""
MEASURED = [[log(loss) for loss in row] for row in json.loads(SEEDS.read_text())["losses"]]
MEANS = [fmean(column) for column in zip(*MEASURED, strict=True)]
NOISE = [[mine - mean for mine, mean in zip(row, MEANS, strict=True)][len(MEANS) // 2 :] for row in MEASURED]
"""Of each run, in the second half of its steps: the logarithm of its loss over that of all of them."""
STEPS = 500
"""As the nightly example trains."""
WORSE = 1.03


def night(noise: Sequence[float], rng: random.Random) -> dict[int, float]:
    """The losses of a run of STEPS steps with the noise of a measured one."""
    return {step: 2 * exp(each - step / STEPS) for step, each in enumerate(rng.choices(noise, k=STEPS), start=1)}


def test_of_100_nights_at_most_one_is_a_false_alarm_and_95_of_3_percent_are_caught() -> None:
    """Of 1,500 nights 0.6 % were false alarms and 97.5 % were caught; with 40 steps 1.1 % and 12.8 %."""
    rng, nights = random.Random(5), 200
    alarms, caught = 0, 0
    for _ in range(nights):
        mine, *others = (night(noise, rng) for noise in rng.sample(NOISE, 8))
        earlier = [LossCurve(run_name="earlier", points=points) for points in others]
        late = {step: loss * WORSE if step > STEPS - STEPS // 5 else loss for step, loss in mine.items()}
        alarms += judge_run(LossCurve(run_name="tonight", points=mine), earlier).failed is not None
        caught += judge_run(LossCurve(run_name="tonight", points=late), earlier).failed is not None
    assert alarms <= 0.01 * nights
    assert caught >= 0.95 * nights


def test_the_measured_runs_raise_no_false_alarm() -> None:
    curves = [LossCurve(run_name=str(n), points=dict(enumerate(map(exp, row), 1))) for n, row in enumerate(MEASURED)]
    rng = random.Random(1)
    samples = [rng.sample(curves, 8) for _ in range(500)]
    assert sum(judge_run(mine, others).failed is not None for mine, *others in samples) <= 5


FLAT = dict.fromkeys(range(1, 41), 2.0)


@pytest.mark.parametrize(
    ("points", "worse"),
    [
        (FLAT, False),
        (dict.fromkeys(FLAT, 2.009), False),  # runs with the same seed have no spread
        (dict.fromkeys(FLAT, 2.02), True),
        (dict.fromkeys(FLAT, 1.0), False),
        ({**FLAT, 40: float("nan")}, True),
    ],
)
def test_without_any_spread_half_a_percent_is_not_worse(points: dict[int, float], worse: bool) -> None:
    earlier = [LossCurve(run_name=str(n), points=FLAT) for n in range(LEAST)]
    assert (judge_run(LossCurve(run_name="a", points=points), earlier).failed is not None) == worse


SPEC = {"model": {"name": "default"}, "data": {"hf_path": "json"}, "train": {"steps": 40}, "run_name": "a"}


def write(
    output: Path,
    name: str,
    *,
    day: int,
    level: float = 2.0,
    outcome: Outcome = "completed",
    steps: int = 40,
    commits: dict[str, str] | None = None,
    **spec: object,
) -> None:
    resolved = {"hub_commits": commits} if commits else {}
    attempt = Attempt(number=1, started_at=f"2026-11-{day:02}T02:17:00Z", outcome=outcome, resolved=resolved)
    losses = {step: level * (1 + step % 3 / 100) for step in range(1, steps + 1)}
    record = Record(run_name=name, spec={**SPEC, **spec}, steps=40, output=str(output), attempts=(attempt,))
    path = output / name / "xsft" / "run.json"
    path.parent.mkdir(parents=True)
    path.write_text(to_json(replace(record, losses=losses)))


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four good nights, and what is none of their workload's successful runs."""
    for variable in ("XSFT_STATE_DIR", "XSFT_CACHE_DIR", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.chdir(tmp_path)
    nights = tmp_path / "out"
    for day in range(1, 5):
        write(nights, f"night-{day}", day=day, data={"hf_path": "json", "shuffle_seed": day})
    write(nights, "failed", day=5, level=1.0, outcome="failed")
    write(nights, "short", day=5, level=1.0, steps=20)
    write(nights, "other", day=5, level=1.0, model={"name": "qwen3-0.6b"})
    write(nights, "lora", day=5, level=1.0, lora={"rank": 4})
    write(nights, "slower", day=5, level=1.0, overrides={"maxtext": {"learning_rate": 1e-9}})
    write(nights, "later", day=20, level=1.0)
    (nights / "no run").mkdir()
    (nights / "note.txt").write_text("x")
    return nights


def compared(output: Path, name: str, last: int = 7) -> tuple[int, dict[str, object]]:
    done = xsft("compare", str(output / name), "--baseline", f"LAST:{last}", "--json")
    return done.returncode, read_document("compare", done.stdout)


def test_a_worse_run_exits_6_by_the_records_alone(output: Path) -> None:
    write(output, "tonight", day=10, level=2.1)
    status, document = compared(output, "tonight")
    assert status == document["exit_status"] == 6
    assert [run["run_name"] for run in document["runs"]] == ["tonight", "night-4", "night-3", "night-2", "night-1"]
    assert [(measure["name"], round(measure["above"], 3)) for measure in document["measures"]] == [
        ("level", 0.05),
        ("rise", 0.0),
    ]
    (problem,) = document["problems"]
    assert (problem["id"], problem["severity"]) == ("run-worse", "error")
    assert (
        "tonight is worse than 4 earlier successful runs of its workload: level +5.0%, limit +0.5%"
        in problem["message"]
    )


def test_a_run_as_good_as_the_others_exits_0(output: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(output, "tonight", day=10)
    assert main(("compare", str(output / "tonight"), "--baseline", "LAST:3")) == 0
    text = capfd.readouterr().out
    assert "level +0.0%, limit +0.5%" in text
    assert "night-2" in text
    assert "night-1" not in text


def test_a_night_that_read_another_commit_of_the_hub_says_so(output: Path) -> None:
    write(output, "yesterday", day=9, commits={"data": "b" * 40})  # the hub did not tell the tokenizer's
    write(output, "tonight", day=10, commits={"tokenizer": "a" * 40, "data": "c" * 40})
    status, document = compared(output, "tonight")
    (problem,) = document["problems"]
    assert (status, problem["id"], problem["severity"]) == (0, "hf-revision-moved", "warning")
    assert f'in yesterday: data: "{"b" * 40}" -> "{"c" * 40}".' in problem["message"]


def test_a_worse_run_is_shown_in_text_too(output: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(output, "tonight", day=10, level=2.1)
    assert main(("compare", str(output / "tonight"), "--baseline", "LAST:7")) == 6
    shown = capfd.readouterr()
    assert "level +5.0%, limit +0.5%" in shown.out
    assert shown.err.startswith("error: tonight is worse")


def test_fewer_than_three_earlier_runs_are_said_and_exit_0(output: Path) -> None:
    status, document = compared(output, "night-3")
    assert (status, document["measures"]) == (0, [])
    (problem,) = document["problems"]
    assert (problem["id"], problem["severity"]) == ("baseline-short", "note")
    assert problem["message"].startswith("2 earlier successful runs of its workload in its output, and at least 3")


def test_a_run_that_did_not_reach_its_last_step_is_unknown(output: Path) -> None:
    assert main(("compare", str(output / "short"), "--baseline", "LAST:7")) == 8


@pytest.mark.parametrize("last", ["7", "LAST:2", "LAST:26", "LAST:x", "last:7"])
def test_last_is_3_to_25(last: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(("compare", "a", "--baseline", last)) == 2
    assert (LEAST, MOST) == (3, 25)
    assert "LAST:7" in (err := capfd.readouterr().err) or "from 3 to 25" in err


def test_a_baseline_is_of_one_run(output: Path) -> None:
    assert main(("compare", "a", "b", "--baseline", "LAST:7")) == 2
