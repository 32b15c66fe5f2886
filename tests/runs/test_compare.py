from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.observations import FakeRuns, local, observed, runs_read
from tests.observations import said as said_of
from tests.replacing import replace
from xsft.base.errors import Unknown, UsageError
from xsft.cluster.observation import Observation, Status
from xsft.runs.compare import LossCurve, curves_of
from xsft.runs.lookup import FoldedRun

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


FOUND = runs_read((observed("gemma"), *map(observed, OTHERS), local("tiny")))


def read(runs: Sequence[FoldedRun]) -> tuple[LossCurve, ...]:
    return tuple(CURVES[run.row.run_name] for run in runs)


def curves(*names: str) -> tuple[LossCurve, ...]:
    return curves_of(names, runs=FakeRuns(FOUND), read=read)[0]


def test_compare_reports_a_run_that_learned_nothing() -> None:
    nothing = replace(observed("gemma"), progress=said_of(no_target_steps=40))

    def failed(observation: Observation) -> Status:
        return Status(
            state="failed", reason="no-target-tokens" if observation.run_name == "gemma" else "trainer-failed"
        )

    runs = FakeRuns(runs_read((nothing, local("tiny"))), classify=failed)
    problems = curves_of(("gemma", "tiny"), runs=runs, read=read)[1]
    assert [(reported.id, reported.where) for reported in problems] == [("no-target-tokens", "gemma")]
    assert "40 steps in a row" in problems[0].message


def test_compare_without_any_loss_raises_unknown() -> None:
    with pytest.raises(Unknown, match="silent: log: timeout; new: no output yet"):
        curves("silent", "new")


def test_all_names_that_do_not_exist_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        curves("gema", "gemma", "zzz")
    assert [problem.message[:26] for problem in raised.value.problems] == [
        "No run is named exactly 'g",
        "No run is named exactly 'z",
    ]
