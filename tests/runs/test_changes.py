"""Only a run that lives, and whose cluster has just answered, is watched during a pause."""

from __future__ import annotations

from typing import Any

import pytest

from tests.observations import FakeRuns, jobset, local, observed, runs_read
from tests.replacing import replace
from xsft.cluster.observation import Observation, Status, Unread
from xsft.runs import changes
from xsft.runs.changes import changes_of

TRAINING = Status(state="training")
SILENT = (Unread(what="jobsets", why="it has said nothing for 5 s"),)


def connect_nothing(_name: str) -> None: ...


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the clock, and record who was watched, and for how long the others were paused."""
    found: list[Any] = []
    monkeypatch.setattr(changes, "pause_until_changed", lambda _, one, seconds: found.append((one.name, seconds)))
    monkeypatch.setattr(changes.clock, "pause", found.append)

    def after(*seen: Observation) -> list[Any]:
        runs: Any = FakeRuns(runs_read(seen), classify=lambda _seen, now: TRAINING)
        runs.cluster = connect_nothing
        look, clock = changes_of(runs)
        look()
        clock.pause(10.0)
        return found

    return after


def test_a_live_run_is_watched_during_a_pause(pauses: Any) -> None:
    assert pauses(observed("gemma")) == [("gemma", 10.0)]


@pytest.mark.parametrize(
    "seen",
    [
        (),
        (local("tiny"),),
        (observed("a"), observed("b")),
        (observed("a", jobset=None),),
        (observed("a", jobset=jobset("a", terminal="Failed")),),
        (replace(observed("a"), unread=SILENT),),
    ],
    ids=["none", "local", "two", "gone", "over", "silent"],
)
def test_runs_other_than_one_live_run_are_not_watched(pauses: Any, seen: tuple[Observation, ...]) -> None:
    assert pauses(*seen) == [10.0]
