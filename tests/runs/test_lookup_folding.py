from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observations import EARLIER, NOW, finished, jobset, judged, local, observed, queued
from tests.replacing import replace
from tests.runs.test_rows import observations
from xsft.base.state_names import ENDED, RUNNING, STATES, WORDS, State
from xsft.cluster.observation import Observation, Recorded, Status, Unread
from xsft.runs.classify import classify
from xsft.runs.lookup import FoldedRun, RowFilter, chosen, fold, matches, named


def rows(*observations: Observation) -> tuple[FoldedRun, ...]:
    return fold(observations, classify=judged, now=NOW)


def names(folded_runs: tuple[FoldedRun, ...]) -> list[str]:
    return [folded_run.row.run_name for folded_run in folded_runs]


def test_attempts_are_one_row_of_the_newest() -> None:
    first = observed(jobset=jobset("gemma", terminal="Failed"))
    second = observed(jobset=jobset("gemma-2", run_name="gemma", created_at="2026-11-21T11:00:00Z"))
    for order in ((first, second), (second, first)):
        (folded_run,) = rows(*order)
        assert folded_run.row.jobset == "gemma-2"
        assert folded_run.row.attempts == 2
    assert named(rows(first, second), "gemma-2") == named(rows(first, second), "gemma") != ()


def test_a_live_attempt_stands_for_the_run_though_a_later_one_failed() -> None:
    alive = observed()
    refused = observed(jobset=jobset("gemma-2", created_at="2026-11-21T11:00:00Z", terminal="Failed"))
    (folded_run,) = rows(alive, refused)
    assert folded_run.row.jobset == "gemma"


def test_an_attempt_with_unknown_end_is_not_used_for_a_later_one() -> None:
    """Its log was not read, or its JobSet is gone: it is over all the same."""
    second = finished("gemma-2", at=EARLIER, run_name="gemma", created_at="2026-11-21T11:00:00Z")
    newest = replace(second, run_name="gemma")
    unread = finished("gemma", at="2026-11-21T10:30:00Z")
    gone = observed(jobset=None, progress=None, record=Recorded(outcome="created", started_at="2026-11-21T09:00:00Z"))
    for earlier in (replace(unread, progress=None), gone):
        (folded,) = fold([earlier, newest], classify=classify, now=NOW)
        assert (folded.row.jobset, folded.status.reason) == ("gemma-2", "ended-short")


def test_the_newest_attempt_stands_for_a_run_of_a_silent_cluster() -> None:
    silent = (Unread(what="jobsets", why="no answer"),)
    before = observed(unread=silent, last_known=Status(state="training"))
    since = observed(
        jobset=None, progress=None, unread=silent, record=Recorded(outcome="created", started_at="2026-11-21T11:00:00Z")
    )
    (folded,) = fold([since, before], classify=classify, now=NOW)
    assert (folded.row.state, folded.row.reason) == ("unknown", "unreachable")


def test_an_attempt_whose_jobset_is_gone_is_counted_in_its_run() -> None:
    gone = observed(jobset=None, progress=None, record=Recorded(outcome="failed", jobset="gemma"))
    (folded_run,) = rows(gone, observed(jobset=jobset("gemma-2", run_name="gemma")))
    assert folded_run.row.jobset == "gemma-2"
    assert folded_run.row.attempts == 2


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
    folded_runs = rows(observed(), other)
    assert len(folded_runs) == 2
    assert len(named(folded_runs, "gemma")) == 2


def test_runs_of_one_name_in_two_outputs_on_this_machine_are_two() -> None:
    folded_runs = rows(local("tiny", output="/a/"), local("tiny", output="/b"))
    assert sorted(folded_run.row.output or "" for folded_run in folded_runs) == ["/a/", "/b"]
    assert len(named(folded_runs, "tiny")) == 2
    assert [folded_run.row.output for folded_run in named(folded_runs, "/a/tiny")] == ["/a/"]
    assert [folded_run.row.output for folded_run in chosen(folded_runs, RowFilter(runs=("/b/tiny",)))] == ["/b"]
    assert named(folded_runs, "/a/tin") == ()
    assert named(rows(observed("tiny")), "gs://my-bucket/runs/tiny") == (), "a folder names what is on this machine"


def one_row_never_holds_two_places(any_observations: list[Observation]) -> None:
    """Nor two names; and no row hides an observation."""
    folded = fold(any_observations, classify=judged, now=NOW)
    for folded_run in folded:
        assert len({(a.target, a.cluster or a.output or "", a.run_name) for a in folded_run.attempts}) == 1
        assert len({(a.jobset.namespace, a.jobset.ours) for a in folded_run.attempts if a.jobset}) <= 1
    assert sorted(map(repr, any_observations)) == sorted(repr(a) for folded_run in folded for a in folded_run.attempts)


def no_order_of_what_was_read_makes_other_runs(any_observations: list[Observation], random: Any) -> None:
    def runs(given: list[Observation]) -> list[list[str]]:
        return sorted(sorted(map(repr, observation.attempts)) for observation in fold(given, classify=judged, now=NOW))

    shuffled = list(any_observations)
    random.shuffle(shuffled)
    if all(observation.jobset is not None or observation.target == "local" for observation in any_observations):
        assert runs(shuffled) == runs(any_observations)


def test_active_runs_come_first_then_the_newest() -> None:
    old = observed("old", jobset=jobset("old", created_at="2026-11-20T10:00:00Z"))
    assert names(rows(finished("done", at="2026-11-21T11:00:00Z"), old, observed("new"))) == ["new", "old", "done"]


def test_runs_that_ended_over_a_day_ago_are_shown_only_on_demand() -> None:
    folded_runs = rows(
        observed("active", jobset=jobset("active", created_at="2026-10-01T00:00:00Z")),
        finished("today", at="2026-11-20T12:30:00Z"),
        finished("before", at="2026-11-20T12:00:00Z"),
        local("old", record=Recorded(outcome="completed", started_at="2026-10-01T00:00:00Z")),
    )
    assert sorted(names(chosen(folded_runs, RowFilter()))) == ["active", "today"]
    assert len(chosen(folded_runs, RowFilter(everything=True))) == 4
    assert names(chosen(folded_runs, RowFilter(runs=("before",)))) == ["before"]


def test_a_run_with_only_a_record_is_shown_for_a_week() -> None:
    def gone(started_at: str) -> Observation:
        return Observation(
            run_name="gone", target="xpk", observed_at=NOW, record=Recorded(outcome="created", started_at=started_at)
        )

    def shown(started_at: str) -> bool:
        folded = fold([gone(started_at)], classify=lambda _seen: Status(state="unknown"), now=NOW)
        return bool(chosen(folded, RowFilter()))

    assert shown("2026-11-16T00:00:00Z")
    assert not shown("2026-11-14T12:00:00Z")
    observation = observed("there", jobset=jobset("there", created_at="2026-10-01T00:00:00Z"))
    folded = fold([observation], classify=lambda _seen: Status(state="unknown"), now=NOW)
    assert names(chosen(folded, RowFilter())) == ["there"]


def test_filters_choose_runs_by_state_and_mode() -> None:
    folded_runs = rows(observed("a"), queued("b"), local("c"))
    assert names(chosen(folded_runs, RowFilter(states=("running",)))) == ["a"]
    assert names(chosen(folded_runs, RowFilter(states=("running", "queued")))) == ["b", "a"]
    assert names(chosen(folded_runs, RowFilter(mode="pathways"))) == []


def test_a_name_does_not_match_as_a_prefix() -> None:
    folded_runs = rows(observed("gemma"), observed("gemma-long"))
    assert names(named(folded_runs, "gemma")) == ["gemma"]
    assert names(named(folded_runs, "gem")) == []


def test_a_run_is_found_by_the_name_of_any_of_its_jobsets() -> None:
    first, second = observed(), observed(jobset=jobset("gemma-2", created_at="2026-11-21T11:00:00Z"))
    elsewhere = observed("gemma-2", cluster="elsewhere")
    assert names(named(rows(first, second), "gemma-2")) == ["gemma"]
    assert names(named(rows(first, second, elsewhere), "gemma-2")) == ["gemma-2"]
    (run,) = named(rows(second, first), "gemma")
    assert run.attempts == (first, second)
    assert names(chosen(rows(first, second), RowFilter(runs=("gemma-2",)))) == ["gemma"]


def every_observation_has_a_row(any_observations: list[Observation], state: Any) -> None:
    folded = fold(any_observations, classify=lambda _seen: Status(state=state), now=NOW)
    assert sum(folded_run.row.attempts for folded_run in folded) == len(any_observations)
    assert all(folded_run.row.age_s is None or folded_run.row.age_s >= 0 for folded_run in folded)
    assert len(chosen(folded, RowFilter(everything=True))) == len(folded)


def rows_of_ended_runs_come_last(any_observations: list[Observation]) -> None:
    ended = [folded_run.row.ended for folded_run in fold(any_observations, classify=classify, now=NOW)]
    assert ended == sorted(ended)


@given(st.lists(observations(), max_size=6), st.randoms(use_true_random=False), st.sampled_from(STATES))
def test_folding_satisfies_its_laws_for_any_observations(seen: list[Observation], random: Any, state: Any) -> None:
    """One test: making observations up takes longer than folding them."""
    one_row_never_holds_two_places(seen)
    no_order_of_what_was_read_makes_other_runs(seen, random)
    every_observation_has_a_row(seen, state)
    rows_of_ended_runs_come_last(seen)


@pytest.mark.parametrize("state", STATES)
def test_a_state_as_filter_matches_only_itself(state: State) -> None:
    assert [word for word in STATES if matches(state, word)] == [state]


@pytest.mark.parametrize("state", STATES)
def test_words_for_several_states_match_these_states(state: State) -> None:
    assert matches(state, "running") == (state in {"compiling", "training", "saving", "serving"})
    assert matches(state, "ended") == (state in {"succeeded", "failed", "cancelled"})
    assert matches(state, "active") == (not matches(state, "ended"))
    assert all(isinstance(matches(state, word), bool) for word in WORDS)


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(KeyError, match="runing"):
        matches("training", "runing")


def test_running_and_ended_have_no_state_in_common() -> None:
    assert not RUNNING & ENDED
