"""Notes about an adopted run, with the words of `xsft why`."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from tests.launch.test_identity import live_jobset
from tests.submissions import NAME, planned
from xsft.launch.notes import adopted_notes, held_by, passed_over_note, read_back_notes, resume_notes
from xsft.records.record import ReadBack

QUEUE = "kueue.x-k8s.io/queue-name"


def held(*, queued: bool, suspended: bool) -> dict[str, Any]:
    body = copy.deepcopy(planned().manifest)
    assert body is not None
    body["spec"]["suspend"] = suspended
    if not queued:
        del body["metadata"]["labels"][QUEUE]
    return body


@pytest.mark.parametrize(
    ("queued", "suspended", "ids"),
    [(True, True, []), (True, False, []), (False, True, ["suspended"]), (False, False, ["no-queue"])],
)
def test_an_adopted_run_without_a_queue_is_a_warning(queued: bool, suspended: bool, ids: list[str]) -> None:
    problems = adopted_notes(held(queued=queued, suspended=suspended))
    assert [problem.id for problem in problems] == ids
    assert all(
        (problem.severity, problem.where) == ("warning", "queue") and NAME in problem.fix for problem in problems
    )
    assert adopted_notes(None) == ()


def test_the_jobset_of_a_uid_is_found_among_those_of_the_run_and_of_its_name() -> None:
    own_jobset, same = ({"metadata": {"uid": uid}} for uid in ("u-1", "u-2"))
    facts = SimpleNamespace(jobsets=(own_jobset,), same_name=same)
    assert [held_by(facts, uid) for uid in ("u-1", "u-2", "u-3")] == [own_jobset, same, None]  # type: ignore[arg-type]
    facts.same_name = None
    assert held_by(facts, "u-2") is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("owner", "words"),
    [("b", "belongs to run b (uid uid-a-2)"), (None, "belongs to a JobSet that xsft did not create (uid uid-a-2)")],
)
def test_the_owner_of_a_name_that_is_passed_over_is_named(owner: str | None, words: str) -> None:
    jobset = live_jobset("a-2", run_name=owner)
    note = passed_over_note(jobset, run_name="a")
    assert (note.id, note.message) == (
        "name-passed-over",
        f"The name a-2 {words}; this attempt of a takes the next name.",
    )


def test_every_difference_between_plan_and_jobset_is_quoted() -> None:
    (note,) = read_back_notes(ReadBack(outcome="differs", differences=("/a: 1 -> 2", "/b: 3 -> 4")))
    assert note.message == "The created JobSet differs from the plan: /a: 1 -> 2; /b: 3 -> 4."
    assert read_back_notes(ReadBack(outcome="same")) == read_back_notes(None) == ()


@pytest.mark.parametrize(("latest", "attempt", "count"), [(7, 1, 1), (7, 2, 0), (None, 1, 0), (0, 1, 1)])
def test_checkpoints_that_no_record_explains_are_reported(latest: int | None, attempt: int, count: int) -> None:
    problems = resume_notes(latest, attempt=attempt)
    assert [(problem.id, problem.where) for problem in problems] == [("resumes-unrecorded", "output")] * count
