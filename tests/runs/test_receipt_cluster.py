"""Chip time of a cluster run by use, from the times of its objects and timed log lines."""

from __future__ import annotations

import pytest

from tests.kubeobjects import kueue_workload
from tests.observations import jobset, observed
from tests.runs.test_receipt import spent
from tests.trainer.test_progress import BEGIN, LOOP_END, MODEL, exact
from xsft.base.amounts import before
from xsft.cluster.objects import Condition, Workload
from xsft.cluster.observation import Observation, Unread
from xsft.records.record import Receipt
from xsft.runs.receipt import cluster_receipt
from xsft.trainer.progress import LoggedLine

BEGAN = "2026-11-21T10:00:00Z"
"""When the JobSet was created."""


def at(seconds: float) -> str:
    return before(BEGAN, -seconds)


def admitted(seconds: float, *, evictions: int = 0) -> Workload:
    condition = Condition(type="Admitted", status="True", reason="Admitted", at=at(seconds))
    return kueue_workload("jobset-gemma", conditions=(condition,), evictions=evictions)


def ended(seconds: float, *, restarts: int = 0, workload: Workload | None = None) -> Observation:
    done = Condition(type="Completed", status="True", at=at(seconds))
    jobset_object = jobset(conditions=(done,), terminal="Completed", restarts=restarts)
    return observed(jobset=jobset_object, workload=workload or admitted(600))


def receipt(observation: Observation, *lines: tuple[float, str], first: int = 0) -> Receipt:
    bill = cluster_receipt(observation, [LoggedLine(text=text, at=at(seconds)) for seconds, text in lines], first=first)
    assert bill is not None
    return bill


RAN = ((700.0, BEGIN), (800.0, MODEL), *((1090.0 + 10 * step, exact(step, 2.0)) for step in range(1, 5)))


def test_queued_time_ends_where_held_time_begins() -> None:
    bill = receipt(ended(1200), *RAN, (1131.0, LOOP_END))
    assert spent(bill) == {"queued": 600.0, "starting": 200.0, "compiling": 290.0, "training": 41.0, "saving": 69.0}
    assert (bill.held_s, bill.notes) == (600.0, ())


def test_restart_counts_saved_steps_as_training_and_the_rest_as_lost() -> None:
    restored = (790.0, BEGIN.partition("System")[0] + "Restored params from step: 6 in 1.0 seconds")
    bill = receipt(ended(1131, restarts=1, workload=admitted(100)), *RAN[:1], restored, *RAN[1:])
    assert spent(bill) == {"queued": 100.0, "starting": 100.0, "compiling": 290.0, "training": 102.5, "lost": 538.5}
    assert bill.steps == 10
    assert "logs of earlier starts are gone" in bill.notes[0]


def test_steps_of_an_earlier_submission_are_not_counted_again() -> None:
    restored = (790.0, BEGIN.partition("System")[0] + "Restored params from step: 6 in 1.0 seconds")
    bill = receipt(ended(1131, restarts=1, workload=admitted(100)), *RAN[:1], restored, *RAN[1:], first=6)
    assert (bill.steps, spent(bill)["lost"]) == (4, 600.0)


def test_run_without_steps_notes_that_nothing_was_trained() -> None:
    bill = receipt(ended(900))
    assert spent(bill) == {"queued": 600.0, "starting": 300.0}
    assert bill.notes == ("No log line shows a step, so nothing is counted as trained.",)


def test_evictions_are_noted() -> None:
    bill = receipt(ended(1200, workload=admitted(600, evictions=2)), *RAN)
    assert bill.notes == ("Evicted 2 times: all time before the latest admission is counted as queued.",)


def test_steps_before_a_rotated_log_are_counted_at_its_pace() -> None:
    """Its first lines are of step 301, and the run has done 304 of them."""
    late = ((4090.0 + 10 * (step - 300), exact(step, 2.0)) for step in range(301, 305))
    bill = receipt(ended(4131), *late)
    assert (bill.steps, spent(bill)) == (304, {"queued": 600.0, "compiling": 415.0, "training": 3116.0})
    assert bill.notes == ("The log begins at step 301; the steps before it are counted at the pace of the others.",)


def test_steps_before_a_rotated_log_of_a_restarted_run_are_not_lost() -> None:
    late = ((4090.0 + 10 * (step - 300), exact(step, 2.0)) for step in range(301, 305))
    bill = receipt(ended(4131, restarts=1), *late, first=100)
    assert (bill.steps, spent(bill)) == (204, {"queued": 600.0, "lost": 1440.0, "training": 2091.0})
    assert ["begins at step 301" in bill.notes[0], "200 saved steps" in bill.notes[1]] == [True, True]


NOT_ADMITTED = Condition(type="Admitted", status="False", reason="NoReservation", at=at(100))
AN_HOUR_LATER = {"observed_at": at(3600)}


@pytest.mark.parametrize(
    "waiting",
    [
        observed(workload=kueue_workload("jobset-gemma"), **AN_HOUR_LATER),
        observed(workload=kueue_workload("jobset-gemma", conditions=(NOT_ADMITTED,)), **AN_HOUR_LATER),
        observed(jobset=jobset(suspended=True), workload=None, **AN_HOUR_LATER),
    ],
    ids=["waiting", "evicted", "no Workload"],
)
def test_a_run_that_waits_holds_no_chips(waiting: Observation) -> None:
    bill = receipt(waiting)
    assert (spent(bill), bill.held_s, bill.steps) == ({"queued": 3600.0}, 0.0, 0)
    assert bill.notes == ("It holds no chips: Kueue has not admitted it.",)


def test_an_unread_workload_is_noted() -> None:
    bill = receipt(observed(unread=(Unread(what="workloads", why="timeout"),), **AN_HOUR_LATER), *RAN)
    assert "time in the queue is counted as held" in bill.notes[0]


def test_a_run_without_a_jobset_has_no_receipt() -> None:
    assert cluster_receipt(observed(jobset=None), ()) is None
