"""The file of a local run's log."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from tests.observations import NOW, judged, local
from xsft.base.errors import Unknown, UsageError
from xsft.cluster.observation import Observation
from xsft.records.record import Attempt, Record
from xsft.runs.log_roles import LogRequest
from xsft.runs.log_sources import RunLogs
from xsft.runs.lookup import fold
from xsft.runs.read_all import Runs


@dataclass
class OfTwoAttempts:
    """A run whose records name these logs."""

    logs: tuple[str, ...]
    store: Any = field(init=False)

    def __post_init__(self) -> None:
        self.store = self

    def output_of(self, _seen: object) -> str:
        return "/out"

    def records(self, observation: Observation) -> tuple[Record, ...]:
        return self.read_run("/out", observation.run_name)

    def read_run(self, _output: str, run_name: str) -> tuple[Record, ...]:
        attempts = (Attempt(number=n, started_at="", log=log) for n, log in enumerate(self.logs, start=1))
        return tuple(Record(run_name=run_name, attempts=(attempt_of_two,)) for attempt_of_two in attempts)


def lines(*logs: str, **options: Any) -> list[str]:
    sources = RunLogs(runs=cast("Runs", OfTwoAttempts(logs)))
    return list(sources.local_lines(local("tiny"), LogRequest(**options)))


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    files = tuple(tmp_path / f"{n}.log" for n in (1, 2))
    for number, file in enumerate(files, start=1):
        file.write_text(f"of attempt {number}\n", encoding="utf-8")
    return (str(files[0]), str(files[1]))


@pytest.mark.parametrize(("attempt", "attempt_read"), [(None, 2), (1, 1), (2, 2)])
def test_the_log_is_that_of_the_newest_or_the_requested_attempt(
    two: tuple[str, str], attempt: int | None, attempt_read: int
) -> None:
    assert lines(*two, attempt=attempt) == [f"of attempt {attempt_read}"]


@pytest.mark.parametrize("follow", [False, True])
def test_the_log_of_an_ended_run_is_whole_or_its_last_lines(tmp_path: Path, *, follow: bool) -> None:
    (tmp_path / "log").write_text("one\ntwo\nthree\n", encoding="utf-8")
    log = str(tmp_path / "log")
    assert lines(log, follow=follow) == ["one", "two", "three"]
    assert lines(log, follow=follow, tail=2) == ["two", "three"]


@pytest.mark.parametrize("attempt", [0, 9])
def test_an_unknown_attempt_is_reported_with_the_existing_ones(two: tuple[str, str], attempt: int) -> None:
    with pytest.raises(UsageError, match=rf"no attempt {attempt}\. Known attempts: 1, 2\."):
        lines(*two, attempt=attempt)


def test_curves_of_one_name_are_told_apart_by_their_folders() -> None:
    three = (local("tiny", output="/a"), local("tiny", output="/b"), local("other", output="/a"))
    hits = fold(three, classify=judged, now=NOW)
    curves = RunLogs(runs=cast("Runs", OfTwoAttempts(("", "")))).curves(hits)
    assert sorted(curve.run_name for curve in curves) == ["/a/tiny", "/b/tiny", "other"]


def test_the_log_of_a_record_without_its_path_is_unknown() -> None:
    with pytest.raises(Unknown, match="contains the path of its log"):
        lines("", attempt=1)
    with pytest.raises(Unknown, match="contains the path of its log"):
        lines(attempt=9)
