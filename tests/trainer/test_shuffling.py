"""Shuffle seeds of a run: no two starts share a seed, and the first start uses MaxText's default."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.everything import everything
from xsft.checks.facts import Facts
from xsft.spec.resolve import Run, resolve
from xsft.spec.sections import Restarts
from xsft.trainer.maxtext import trainer_argv
from xsft.trainer.shuffling import MAXTEXT_SEED, STARTS, first_seed, order_at_first, order_of, reshuffles, seeds

SHUFFLED: dict[str, Any] = {"data__shuffle": None, "data__shuffle_seed": None, "data__num_epoch": None}


def _run(*, attempt: int = 1, **fields: Any) -> Run:
    settings = {**SHUFFLED, "restarts__data": None, **fields}
    return resolve(everything(**settings), Facts(attempt=attempt))[0]


def _seed(run: Run) -> list[str]:
    return [a for a in trainer_argv(run) if a.startswith("data_shuffle_seed=")]


@given(
    seed=st.none() | st.integers(0, 2**31 - 1),
    epochs=st.none() | st.integers(1, 50),
    more=st.integers(0, 20),
    starts=st.lists(st.tuples(st.integers(1, 200), st.integers(0, STARTS - 1)), min_size=2, max_size=2, unique=True),
)
def test_no_two_epochs_of_different_starts_share_a_seed(
    seed: int | None, epochs: int | None, more: int, starts: list[tuple[int, int]]
) -> None:
    """MaxText shuffles epoch i with seed + i; num_epoch may grow from one attempt to a later one."""
    (before, restart), (after, later) = sorted(starts)
    grown = (epochs or 1) + more if after > before else epochs
    first = _seeds_of_epochs(_run(attempt=before, data__shuffle_seed=seed, data__num_epoch=epochs), restart)
    assert first.isdisjoint(
        _seeds_of_epochs(_run(attempt=after, data__shuffle_seed=seed, data__num_epoch=grown), later)
    )


def _seeds_of_epochs(run: Run, restart: int) -> set[int]:
    run_seeds = seeds(run)
    assert run_seeds is not None
    first = run_seeds.first + restart * run_seeds.per_restart
    return set(range(first, first + (run.spec.data.num_epoch or 1)))


def test_override_of_shuffling_or_epochs_counts_as_its_field() -> None:
    for off in (False, "false"):
        run = _run(overrides={"maxtext": {"enable_data_shuffling": off}})
        assert not reshuffles(run)
        assert _seed(run) == []
    assert reshuffles(_run(overrides={"maxtext": {"enable_data_shuffling": True}}))
    run_seeds = seeds(_run(overrides={"maxtext": {"num_epoch": 5}}))
    assert run_seeds == seeds(_run(data__num_epoch=5))


def test_attempt_has_seeds_for_the_maximum_of_restarts() -> None:
    (limit,) = [bound.le for bound in Restarts.model_fields["max"].metadata if hasattr(bound, "le")]
    assert limit < STARTS


def test_seeds_of_later_attempts_advance_by_per_attempt() -> None:
    first = seeds(_run(data__shuffle_seed=7, data__num_epoch=3))
    third = seeds(_run(attempt=3, data__shuffle_seed=7, data__num_epoch=3))
    assert first is not None
    assert third is not None
    assert (first.first, first.per_restart, first.per_attempt) == (7, 3, 3003)
    assert third.first == first.first + 2 * first.per_attempt


# The first start is what it was


@pytest.mark.parametrize("target", ["local", "xpk"])
def test_run_without_restarts_keeps_its_command_line(target: str) -> None:
    assert _seed(_run(target=target, restarts__max=None)) == []
    assert _seed(_run(target=target, restarts__max=None, data__shuffle_seed=7)) == ["data_shuffle_seed=7"]


def test_restartable_run_states_the_first_seed() -> None:
    assert _seed(_run(restarts__max=3)) == [f"data_shuffle_seed={MAXTEXT_SEED}"]
    assert _seed(_run(restarts__max=3, data__shuffle_seed=7)) == ["data_shuffle_seed=7"]


@pytest.mark.parametrize("target", ["local", "xpk"])
def test_a_second_attempt_has_another_seed(target: str) -> None:
    assert _seed(_run(target=target, attempt=2, restarts__max=None)) == [f"data_shuffle_seed={STARTS}"]


# Who does not want it


@pytest.mark.parametrize("fields", [{"restarts__data": "repeat"}, {"data__shuffle": False}])
def test_a_run_that_repeats_never_changes_its_seed(fields: dict[str, Any]) -> None:
    run = _run(attempt=2, restarts__max=3, data__shuffle_seed=7, **fields)
    assert seeds(run) is None
    assert first_seed(run) == 7


# In which order a run read since it resumed


@pytest.mark.parametrize(
    ("argv", "order"),
    [
        ("python3 data_shuffle_seed=1001", "reshuffled"),
        ("python3 data_shuffle_seed=0", "repeated"),
        ("python3", "repeated"),
        ("python3 data_shuffle_seed=1001 enable_data_shuffling=False", "repeated"),
    ],
)
def test_order_of_reads_the_seeds_of_the_command_lines(argv: str, order: str) -> None:
    assert order_of(argv.split(), earlier=[["python3", "steps=1"], ["python3", "data_shuffle_seed=7"]]) == order


@pytest.mark.parametrize(
    ("attempt", "data", "order"), [(1, None, "repeated"), (2, None, "reshuffled"), (2, "repeat", "repeated")]
)
def test_the_first_start_of_a_later_attempt_reads_in_another_order(attempt: int, data: str | None, order: str) -> None:
    assert order_at_first(_run(attempt=attempt, restarts__data=data)) == order


def test_order_of_command_lines_agrees_with_the_workload() -> None:
    first = trainer_argv(_run(restarts__max=None))
    for data, shuffle in (("reshuffle", None), ("repeat", None), (None, False)):
        later = _run(attempt=2, restarts__max=None, restarts__data=data, data__shuffle=shuffle)
        assert order_of(trainer_argv(later), earlier=[first]) == order_at_first(later)
