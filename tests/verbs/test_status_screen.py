from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from tests.observations import FakeRuns, observed, queued, runs_read, said
from tests.replacing import replace
from tests.verbs.test_status import SILENT, Terminal
from xsft.base.errors import Unreachable
from xsft.runs.lookup import RowFilter, RunsRead
from xsft.verbs.status_screen import StatusView, next_look, watch

Answer = Callable[[], RunsRead]


def silent() -> RunsRead:
    return runs_read((), (SILENT,), answered=False, whole=False)


class Clock:
    """Ticks with every pause."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> str:
        return f"2026-11-21T12:{int(self.seconds) // 60:02}:{int(self.seconds) % 60:02}+00:00"

    def pause(self, seconds: float) -> None:
        self.seconds += seconds


def watched(answers: list[RunsRead], *, stream: io.StringIO | None = None, every_s: float = 10) -> str:
    clock, out = Clock(), stream or io.StringIO()
    runs = FakeRuns(*answers, now=clock.now)
    assert watch(runs, RowFilter(), every_s=every_s, pause=clock.pause, stdout=out, rounds=len(answers)) == 0
    return out.getvalue()


def at(step: int) -> RunsRead:
    return runs_read((observed(progress=said(step)),))


def test_a_pipe_gets_a_line_per_change() -> None:
    lines = watched([runs_read((queued("gemma"),)), at(1), at(1), at(2), runs_read()]).splitlines()
    assert lines == [
        "2026-11-21T12:00:00+00:00  gemma  queued (no-quota)",
        "2026-11-21T12:00:10+00:00  gemma  training  step 1/1000  loss 2.346",
        "2026-11-21T12:00:30+00:00  gemma  training  step 2/1000  loss 2.346",
        "2026-11-21T12:00:40+00:00  gemma  no longer shown",
    ]


def test_a_cluster_that_stops_answering_changes_no_row_and_is_reported_once() -> None:
    lines = watched([at(1), silent(), silent(), at(2)]).splitlines()
    assert [line.split("  ", 1)[1] for line in lines if "fix:" not in line] == [
        "gemma  training  step 1/1000  loss 2.346",
        "error: Nothing could be read: The cluster lab does not answer. [unreachable]",
        "gemma  training  step 2/1000  loss 2.346",
    ]


def looked(answers: list[RunsRead]) -> list[StatusView]:
    clock, before, shown = Clock(), None, []
    runs = FakeRuns(*answers, now=clock.now)
    for _ in answers:
        before = next_look(runs, RowFilter(), before)
        shown.append(before)
        clock.pause(30)
    return shown


def test_rows_of_a_silent_cluster_are_kept_and_their_age_grows() -> None:
    first, second, third = looked([at(1), silent(), silent()])
    assert [screen.rows[0].evidence_age_s for screen in (first, second, third)] == [4, 34, 64]
    assert [screen.rows[0].state for screen in (first, second, third)] == ["training"] * 3
    assert [screen.stale for screen in (first, second, third)] == [False, True, True]


def test_a_partial_answer_removes_no_run_from_the_table() -> None:
    other = observed("other", cluster="elsewhere")
    _, second = looked([runs_read((*at(1).observations, other)), replace(at(2), problems=(SILENT,), whole=False)])
    assert [row.run_name for row in second.rows] == ["gemma", "other"]
    assert second.rows[0].step == 2
    assert second.rows[1].evidence_age_s == 34
    assert "does not answer" in second.said[0]


def test_an_error_of_the_first_look_ends_watch_as_status_does() -> None:
    with pytest.raises(Unreachable):
        watched([silent()])


def test_a_terminal_is_redrawn_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn = watched([at(1), silent()], stream=Terminal())
    assert "Ctrl-C ends" in drawn
    assert "not answering, older rows" in drawn
    assert "\x1b[1A" in drawn, "the second picture replaces the first"


def test_no_color_disables_the_animation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    drawn = watched([at(1), at(2)], stream=Terminal())
    assert "\x1b" not in drawn
    assert len(drawn.splitlines()) == 2


def test_runs_beyond_the_height_of_the_terminal_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "10")
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn = watched([runs_read(tuple(observed(f"run-{n}") for n in range(30)))], stream=Terminal())
    assert "23 more runs do not fit" in drawn


def test_ctrl_c_ends_watch() -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(FakeRuns(at(1)), RowFilter(), every_s=5, pause=interrupted, stdout=Terminal())


def test_watch_warns_of_a_loss_of_zero_as_status_does() -> None:
    (shown,) = looked([runs_read((observed(progress=said(loss=0.0, zero_loss_steps=3)),))])
    assert "[loss-zero]" in shown.said[0]
