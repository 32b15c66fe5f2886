"""The choice of runs whose progress is read: properties for any runs, and whose turn it is."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.observations import jobset, observed
from tests.replacing import replace
from xsft.cluster.observation import Observation, Recorded, ReplicatedJob
from xsft.runs.read_scope import ReadLimits, ReadScope, choose_reads

NOW = "2026-11-21T12:00:00Z"


def scope(**limits: Any) -> ReadScope:
    return ReadScope(names=frozenset(), everything=False, now=NOW, limits=ReadLimits(**limits))


def run(number: int, kind: str) -> Observation:
    text = f"2026-11-21T{number // 60:02}:{number % 60:02}:00Z"
    ready = ReplicatedJob(name="slice-job", replicas=2, ready=2)
    terminal = "Completed" if kind == "ended" else None
    jobset_object = jobset(name=f"{kind}-{number}", terminal=terminal, created_at=text, jobs=(ready,))
    observation = replace(observed(f"{kind}-{number}"), jobset=jobset_object, progress=None)
    gone = Recorded(outcome="cancelled", started_at=text)
    return replace(observation, jobset=None, record=gone) if kind == "gone" else observation


KINDS = st.sampled_from(["active", "ended", "gone"])


@given(st.lists(KINDS, max_size=30), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_no_run_is_lost_and_each_kind_has_its_limit(kinds: list[str], active: int, ended: int, gone: int) -> None:
    runs = [run(i, kind) for i, kind in enumerate(kinds)]
    chosen_reads = choose_reads(runs, scope=scope(at_most=active, ended_at_most=ended, gone_at_most=gone))
    assert sorted(one.run_name for one in (*chosen_reads.asked, *chosen_reads.others)) == sorted(
        one.run_name for one in runs
    )
    for kind, places in (("active", active), ("ended", ended), ("gone", gone)):
        run_chosen = [one for one in chosen_reads.asked if one.run_name.startswith(kind)]
        assert len(run_chosen) == min(places, kinds.count(kind))


def test_the_newest_active_runs_come_first() -> None:
    runs = [*(run(i, "active") for i in range(5)), *(run(i, "ended") for i in range(10, 15)), run(30, "gone")]
    chosen_reads = choose_reads(runs, scope=scope(at_most=3, ended_at_most=1, gone_at_most=1))
    assert [run_chosen.run_name for run_chosen in chosen_reads.asked] == [
        "active-4",
        "active-3",
        "active-2",
        "ended-14",
        "gone-30",
    ]


def test_all_ended_runs_are_chosen_if_everything_is_asked_for() -> None:
    runs = [run(i, "ended") for i in range(30)]
    assert len(choose_reads(runs, scope=scope()).asked) == 20
    assert len(choose_reads(runs, scope=replace(scope(), everything=True)).asked) == 30


def test_all_named_runs_are_chosen() -> None:
    runs = [run(i, "active") for i in range(50)]
    named = replace(scope(), names=frozenset(active_run.run_name for active_run in runs))
    chosen_reads = choose_reads(runs, scope=named)
    assert (len(chosen_reads.asked), chosen_reads.others) == (50, ())


def test_the_newest_deleted_runs_are_chosen() -> None:
    runs = [run(i, "gone") for i in range(5)]
    chosen_reads = choose_reads(runs, scope=scope(gone_at_most=2))
    assert [run_chosen.run_name for run_chosen in chosen_reads.asked] == ["gone-4", "gone-3"]


def test_no_run_is_chosen_without_time_for_progress() -> None:
    assert choose_reads([run(1, "active")], scope=scope(progress_s=0)).asked == ()


def test_fewer_active_runs_are_chosen_if_not_all_can_be_read() -> None:
    runs = [run(i, "active") for i in range(6)]
    assert len(choose_reads(runs, scope=scope(at_most=6, if_more=2)).asked) == 6
    chosen_reads = choose_reads(runs, scope=scope(at_most=5, if_more=2))
    assert [run_chosen.run_name for run_chosen in chosen_reads.asked] == ["active-5", "active-4"]
