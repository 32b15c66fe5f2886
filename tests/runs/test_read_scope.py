"""The choice of runs whose progress is read: properties for any runs, and whose turn it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observations import jobset, observed
from tests.replacing import replace
from xsft.cluster.observation import Observation, Recorded, ReplicatedJob
from xsft.runs.read_scope import ReadLimits, ReadScope, order_reads

NOW = "2026-11-21T12:00:{:02}Z"


def scope(second: int = 0, **limits: Any) -> ReadScope:
    return ReadScope(names=frozenset(), everything=True, now=NOW.format(second), limits=ReadLimits(**limits))


def run(number: int, kind: str) -> Observation:
    at = f"2026-11-20T{number // 60:02}:{number % 60:02}:00Z"
    ready = ReplicatedJob(name="slice-job", replicas=2, ready=2)
    terminal = "Completed" if kind == "ended" else None
    made = jobset(name=f"{kind}-{number}", terminal=terminal, created_at=at, jobs=(ready,))
    seen = replace(observed(f"{kind}-{number}"), jobset=made, progress=None)
    gone = Recorded(outcome="cancelled", started_at=at)
    return replace(seen, jobset=None, record=gone) if kind == "gone" else seen


KINDS = st.sampled_from(["active", "ended", "gone"])


@given(st.lists(KINDS, max_size=30), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 59))
def test_no_run_is_lost_and_each_kind_has_its_limit(
    kinds: list[str], active: int, ended: int, gone: int, second: int
) -> None:
    runs = [run(i, kind) for i, kind in enumerate(kinds)]
    found = order_reads(runs, scope=scope(second, at_most=active, ended_at_most=ended, gone_at_most=gone))
    assert sorted(one.run_name for one in (*found.asked, *found.left)) == sorted(one.run_name for one in runs)
    for kind, places in (("active", active), ("ended", ended), ("gone", gone)):
        asked = [one for one in found.asked if one.run_name.startswith(kind)]
        assert len(asked) == min(places, kinds.count(kind))


def test_the_newest_active_runs_come_first() -> None:
    runs = [*(run(i, "active") for i in range(5)), *(run(i, "ended") for i in range(10, 15)), run(30, "gone")]
    found = order_reads(runs, scope=scope(at_most=3, ended_at_most=1, gone_at_most=1))
    assert [one.run_name for one in found.asked] == ["active-4", "active-3", "active-2", "ended-14", "gone-30"]


def test_every_run_has_its_turn_within_as_many_reads_as_runs() -> None:
    runs = [run(i, "ended") for i in range(30)]
    asked = set()
    for second in range(30):
        found = order_reads(runs, scope=scope(second, ended_at_most=4))
        assert {"ended-29", "ended-28"} <= {one.run_name for one in found.asked}
        asked |= {one.run_name for one in found.asked}
    assert asked == {one.run_name for one in runs}


@pytest.mark.parametrize("apart", [1, 5, 7, 14, 28, 60])
def test_every_run_has_its_turn_for_any_interval_between_reads(apart: int) -> None:
    runs = [run(i, "ended") for i in range(30)]
    asked = set()
    for look in range(60):
        at = datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=apart * look)
        found = order_reads(runs, scope=replace(scope(ended_at_most=4), now=at.isoformat()))
        asked |= {one.run_name for one in found.asked}
    assert asked == {one.run_name for one in runs}


def test_all_named_runs_are_waited_for() -> None:
    runs = [run(i, "active") for i in range(50)]
    named = replace(scope(), names=frozenset(one.run_name for one in runs))
    found = order_reads(runs, scope=named)
    assert (len(found.asked), found.first, found.left) == (50, 50, ())


def test_the_newest_deleted_runs_are_chosen() -> None:
    runs = [run(i, "gone") for i in range(5)]
    found = order_reads(runs, scope=scope(gone_at_most=2))
    assert [one.run_name for one in found.asked] == ["gone-4", "gone-3"]


def test_no_run_is_chosen_without_time_for_progress() -> None:
    assert order_reads([run(1, "active")], scope=scope(progress_s=0)).asked == ()


@given(st.lists(KINDS, max_size=30), st.integers(0, 5), st.integers(0, 5))
def test_fewer_runs_are_waited_for_if_not_all_active_runs_can_be_read(
    kinds: list[str], at_most: int, at_least: int
) -> None:
    """All runs that are read are waited for, unless more runs are active than can be read."""
    runs = [run(i, kind) for i, kind in enumerate(kinds)]
    found = order_reads(runs, scope=scope(at_most=at_most, at_least=at_least, ended_at_most=2, gone_at_most=2))
    first, later = found.asked[: found.first], found.asked[found.first :]
    active = [one for one in found.asked if one.run_name.startswith("active")]
    if kinds.count("active") <= at_most:
        assert not later
    else:
        assert len(later) == max(0, at_most - at_least)
    assert [*active[: len(active) - len(later)], *later] == active, "the newest are waited for"
    assert {one.run_name for one in found.asked} - {one.run_name for one in active} <= {one.run_name for one in first}
