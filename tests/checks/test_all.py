"""What holds for all checks together: their order, what may be silenced, and what a submission is stricter about."""

from __future__ import annotations

from tests.checks.factory import run_of, spec
from xsft.checks import UNREAD_IS_FATAL, check, for_submission, silence
from xsft.facts import Facts
from xsft.problems import error, note, warning

ERROR = error("bad", "train.steps", "it cannot be", "Change it.")
WARNING = warning("doubtful", "train.steps", "it may hurt", "Look at it.")
NOTE = note("known", "train.steps", "it is so")


def test_errors_come_first_and_nothing_twice() -> None:
    found = check(run_of(spec(train={"steps": 10**6}, image={"ref": "registry/image"}, restarts={"max": 1})), Facts())
    order = [("error", "warning", "note").index(p.severity) for p in found]
    assert order == sorted(order)
    assert {0, 1, 2} == set(order)
    assert len(found) == len(set(found))


def test_a_warning_that_is_accepted_becomes_a_note_with_the_reason() -> None:
    (told,) = silence((WARNING,), {"doubtful": "seen it"})
    assert (told.id, told.severity, told.where) == ("doubtful", "note", "train.steps")
    assert "seen it" in told.message


def test_an_error_cannot_be_accepted() -> None:
    assert silence((ERROR, NOTE), {"bad": "I insist", "known": "yes"}) == (ERROR, NOTE)


def test_accepting_one_leaves_the_others() -> None:
    assert silence((ERROR, WARNING, NOTE), {}) == (ERROR, WARNING, NOTE)


def test_accepting_what_nobody_says_is_said() -> None:
    found = silence((WARNING,), {"doubtfull": "a typo"})
    assert [(p.id, p.severity, p.where) for p in found] == [
        ("doubtful", "warning", "train.steps"),
        ("checks-unused", "warning", "checks.doubtfull"),
    ]


def test_a_submission_takes_no_checkpoint_unread_even_where_the_warning_is_accepted() -> None:
    unread = warning("checkpoint-unread", "model.checkpoint", "could not look", "Log in.")
    accepted = silence((unread,), {"checkpoint-unread": "it is there"})
    for problems in ((unread,), accepted):
        assert [p.severity for p in for_submission(problems)] == ["error"]
    assert for_submission((ERROR, WARNING, NOTE)) == (ERROR, WARNING, NOTE)
    assert "checkpoint-unread" in UNREAD_IS_FATAL
