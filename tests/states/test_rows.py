from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observations import NOW, finished, jobset, judged, local, observed, queued, said
from xsft.states.model import STATES, Observation, Recorded, Status, Unread
from xsft.states.rows import Seen, Wanted, aged, chosen, fold, named, row_of


def rows(*observations: Observation) -> tuple[Seen, ...]:
    return fold(observations, classify=judged, now=NOW)


def names(found: tuple[Seen, ...]) -> list[str]:
    return [one.row.run_name for one in found]


def test_a_row_says_how_far_and_how_fast_and_how_old() -> None:
    (found,) = rows(observed())
    row = found.row
    assert (row.state, row.step, row.steps, row.loss) == ("training", 120, 1000, 2.3456)
    assert row.eta_s == pytest.approx(880 * 4.546)
    assert (row.age_s, row.evidence_age_s) == (7200, 4)
    assert row.evidence == ("jobset", "log")
    assert row.progress.read
    assert row.progress.saved_step == 100
    assert row.chips == 512


def test_mfu_is_the_share_of_the_chips_peak() -> None:
    """417.4 TFLOP/s per v6e chip is 45.5 %: source: tpu-recipes training/trillium/Llama3.1-8B-MaxText/v6e-256."""
    (found,) = rows(observed())
    assert found.row.mfu == pytest.approx(0.455, abs=0.0005)


def test_a_tpu7x_chip_is_two_devices() -> None:
    seen = observed(jobset=jobset(tpu="tpu7x-128"), progress=said(tflops_per_device=2307 / 2))
    assert row_of(seen, Status(state="training"), now=NOW).mfu == pytest.approx(1.0)


@pytest.mark.parametrize("tpu", [None, "h100-8", "tpu7-8"])
def test_no_mfu_without_a_peak(tpu: str | None) -> None:
    assert row_of(observed(jobset=jobset(tpu=tpu)), Status(state="training"), now=NOW).mfu is None


def test_what_was_not_read_says_why() -> None:
    (found,) = rows(observed(progress=None, unread=(Unread(what="log", why="deadline of 2 s"),)))
    assert not found.row.progress.read
    assert found.row.progress.why == "deadline of 2 s"
    assert found.row.unread == ("log: deadline of 2 s",)
    assert found.row.step is None


def test_attempts_are_one_row_of_the_newest() -> None:
    first = observed(jobset=jobset("gemma", terminal="Failed"))
    second = observed(jobset=jobset("gemma-2", run_name="gemma", created_at="2026-11-21T11:00:00Z"))
    for order in ((first, second), (second, first)):
        (found,) = rows(*order)
        assert found.row.jobset == "gemma-2"
        assert found.row.attempts == 2
    assert named(rows(first, second), "gemma-2") == named(rows(first, second), "gemma") != ()


def test_a_live_attempt_stands_for_the_run_though_a_later_one_failed() -> None:
    alive = observed()
    refused = observed(jobset=jobset("gemma-2", created_at="2026-11-21T11:00:00Z", terminal="Failed"))
    (found,) = rows(alive, refused)
    assert found.row.jobset == "gemma"


def test_an_attempt_whose_jobset_is_gone_is_no_run_of_its_own() -> None:
    gone = observed(jobset=None, progress=None, record=Recorded(outcome="failed", jobset="gemma"))
    (found,) = rows(gone, observed(jobset=jobset("gemma-2", run_name="gemma")))
    assert found.row.jobset == "gemma-2"
    assert found.row.attempts == 2


@pytest.mark.parametrize(
    "other",
    [
        observed(cluster="another"),
        observed(jobset=jobset(namespace="other")),
        observed(jobset=jobset(ours=False)),
        local("gemma"),
    ],
    ids=["cluster", "namespace", "not ours", "local"],
)
def test_runs_of_one_name_elsewhere_are_other_runs(other: Observation) -> None:
    found = rows(observed(), other)
    assert len(found) == 2
    assert len(named(found, "gemma")) == 2


def test_active_runs_come_first_then_the_newest() -> None:
    old = observed("old", jobset=jobset("old", created_at="2026-11-20T10:00:00Z"))
    assert names(rows(finished("done", at="2026-11-21T11:00:00Z"), old, observed("new"))) == ["new", "old", "done"]


def test_what_ended_over_a_day_ago_is_shown_on_demand() -> None:
    found = rows(
        observed("active", jobset=jobset("active", created_at="2026-10-01T00:00:00Z")),
        finished("today", at="2026-11-20T12:30:00Z"),
        finished("before", at="2026-11-20T11:30:00Z"),
        local("old", record=Recorded(outcome="completed", started_at="2026-10-01T00:00:00Z")),
    )
    assert sorted(names(chosen(found, Wanted()))) == ["active", "today"]
    assert len(chosen(found, Wanted(everything=True))) == 4
    assert names(chosen(found, Wanted(runs=("before",)))) == ["before"]


def test_a_run_of_which_nothing_is_left_is_shown_for_a_week() -> None:
    def gone(started_at: str) -> Observation:
        return Observation(
            run_name="gone", target="xpk", observed_at=NOW, record=Recorded(outcome="created", started_at=started_at)
        )

    def shown(started_at: str) -> bool:
        found = fold([gone(started_at)], classify=lambda _seen, now: Status(state="unknown"), now=NOW)
        return bool(chosen(found, Wanted()))

    assert shown("2026-11-16T00:00:00Z")
    assert not shown("2026-11-01T00:00:00Z")


def test_filters() -> None:
    found = rows(observed("a"), queued("b"), local("c"))
    assert names(chosen(found, Wanted(states=("running",)))) == ["a"]
    assert names(chosen(found, Wanted(states=("running", "queued")))) == ["b", "a"]
    assert names(chosen(found, Wanted(mode="pathways"))) == []


def test_a_name_is_never_a_beginning() -> None:
    found = rows(observed("gemma"), observed("gemma-long"))
    assert names(named(found, "gemma")) == ["gemma"]
    assert names(named(found, "gem")) == []


def test_a_run_may_be_called_by_any_jobset_of_its_and_its_own_name_comes_first() -> None:
    first, second = observed(), observed(jobset=jobset("gemma-2", created_at="2026-11-21T11:00:00Z"))
    elsewhere = observed("gemma-2", cluster="elsewhere")
    assert names(named(rows(first, second), "gemma-2")) == ["gemma"]
    assert names(named(rows(first, second, elsewhere), "gemma-2")) == ["gemma-2"]
    (run,) = named(rows(second, first), "gemma")
    assert run.attempts == (first, second)
    assert names(chosen(rows(first, second), Wanted(runs=("gemma-2",)))) == ["gemma"]


def test_a_server_whose_clock_is_ahead_makes_no_negative_age() -> None:
    (found,) = rows(observed(observed_at="2026-11-21T12:00:30Z", jobset=jobset(created_at="2026-11-21T12:00:20Z")))
    assert (found.row.age_s, found.row.evidence_age_s) == (0, 0)


def test_a_row_that_is_kept_grows_old_and_stays_what_it_was() -> None:
    (found,) = rows(observed())
    later = aged(found.row, now="2026-11-21T12:10:00Z")
    assert (later.age_s, later.evidence_age_s) == (7800, 604)
    assert replace(later, age_s=found.row.age_s, evidence_age_s=found.row.evidence_age_s) == found.row


texts = st.one_of(st.none(), st.text(max_size=8), st.just(NOW), st.just("0001-01-01T00:00:00+14:00"))
numbers = st.one_of(st.none(), st.floats(), st.integers(min_value=-5, max_value=10**9))


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """Of all shapes, sensible or not."""
    base: Any = draw(st.sampled_from([observed(), local(), queued("q"), finished("f", at=NOW)]))
    progress = said(
        draw(st.integers(0, 10**9)), loss=draw(numbers), step_seconds=draw(numbers), tflops_per_device=draw(numbers)
    )
    return replace(
        base,
        observed_at=draw(texts) or "",
        steps=draw(st.one_of(st.none(), st.integers(0, 10**9))),
        progress=draw(st.one_of(st.none(), st.just(progress))),
        jobset=draw(st.one_of(st.none(), st.just(jobset(tpu=draw(texts), created_at=draw(texts) or "")))),
        record=draw(st.one_of(st.none(), st.just(Recorded(outcome="running", started_at=draw(texts))))),
        cluster=draw(texts),
        unread=(Unread(what="log", why=draw(st.text(max_size=9))),),
    )


@given(st.lists(observations(), max_size=5), st.sampled_from(STATES))
def test_every_observation_has_a_row(seen: list[Observation], state: Any) -> None:
    found = fold(seen, classify=lambda _seen, now: Status(state=state), now=NOW)
    assert sum(one.row.attempts for one in found) == len(seen)
    assert all(one.row.age_s is None or one.row.age_s >= 0 for one in found)
    assert len(chosen(found, Wanted(everything=True))) == len(found)
