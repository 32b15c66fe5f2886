"""Submissions to a cluster, played through. The wait for their end: tests/launch/test_wait_for_end.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event

import pytest

from tests.launch.test_wait_for_end import PLAN, submit
from tests.replacing import replace
from tests.runs.test_waiting import DEAF, EMPTY, at
from xsft.base.errors import Refused
from xsft.base.problems import Problem, error, warning
from xsft.base.reporting import PlainView, Reporter
from xsft.launch.identity import LastEnd, Proposal, RunHistory
from xsft.launch.submit import parser_answer
from xsft.machine.parallel import start
from xsft.machine.signals import NOTHING_CREATED


@pytest.mark.parametrize(
    ("action", "ids"),
    [
        ("created", ["of-the-plan", "of-the-run"]),
        ("attempt", ["of-the-plan", "of-the-run"]),
        ("adopted", ["of-the-run"]),
        ("finished", ["of-the-run"]),
        ("refused", ["of-the-plan"]),
    ],
)
def test_warnings_of_an_existing_run_are_not_repeated(
    action: str, ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    plan_warnings = (warning("of-the-plan", "", "one.", "f"),)
    with suppress(Refused):
        submit(
            at("succeeded", 1000),
            action=action,
            warnings=plan_warnings,
            problems=(warning("of-the-run", "", "two.", "f"),),
        )
    err = capsys.readouterr().err
    assert [warning_id for warning_id in ("of-the-plan", "of-the-run") if f"[{warning_id}]" in err] == ids
    assert ("1 warning of the workload, shown when" in err) == (action in ("adopted", "finished"))


def test_a_finished_run_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(DEAF, action="finished") == 0


@contextmanager
def wiped(_title: str) -> Iterator[PlainView]:
    """A user who presses Ctrl-C while the progress is wiped."""
    yield PlainView()
    raise KeyboardInterrupt


def test_ctrl_c_while_the_progress_is_wiped_does_not_say_that_nothing_was_created() -> None:
    with pytest.raises(KeyboardInterrupt) as stopped:
        submit(EMPTY, listener=Reporter(working=wiped))
    assert NOTHING_CREATED not in getattr(stopped.value, "__notes__", ())


MEMORY = LastEnd(attempt=1, digest=PLAN.spec_digest, message="The memory is too small.", fix="Shorten.", repeats=True)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("end", "refused"),
    [
        (MEMORY, True),
        (replace(MEMORY, repeats=False), False),
        (replace(MEMORY, digest="another"), False),
        (None, False),
    ],
    ids=["same workload", "a lost node", "changed workload", "something was saved"],
)
def test_an_attempt_that_must_end_as_the_last_one_is_created_only_on_request(
    end: LastEnd | None, refused: bool, again: bool
) -> None:
    proposal = Proposal(plan=PLAN, attempt=2, world=RunHistory(last_end=end), problems=())
    if not refused or again:
        assert submit(at("succeeded", 1000), proposal=proposal, again=again) == 0
        return
    with pytest.raises(Refused) as caught:
        submit(at("succeeded", 1000), proposal=proposal)
    assert (caught.value.problem_id, caught.value.exit_status) == ("ends-again", 4)
    assert "The memory is too small." in caught.value.message
    assert "--again" in caught.value.fix


def test_the_question_says_how_the_last_attempt_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """Who is asked decides, also on an attempt that must end as the last one."""
    questions: list[str] = []
    proposal = Proposal(plan=PLAN, attempt=2, world=RunHistory(last_end=MEMORY), problems=())
    submit(at("succeeded", 1000), proposal=proposal, ask=lambda question: not questions.append(question))
    err = capsys.readouterr().err
    assert len(questions) == 1
    assert "attempt 1 ended: The memory is too small." in err
    assert "The workload is the same, so this attempt would end so too." in err


REFUSED = error("maxtext-refuses", "", "MaxText refuses it.", "")


def test_parser_answer_returns_the_problems_of_a_parser_that_has_ended() -> None:
    assert parser_answer(start(lambda: (REFUSED,))) == (REFUSED,)


def test_a_slow_parser_is_reported_as_a_note() -> None:
    done = Event()

    def asked() -> tuple[Problem, ...]:
        done.wait()
        return ()

    (answer,) = parser_answer(start(asked), within_s=0.01)
    done.set()
    assert (answer.id, answer.severity) == ("maxtext-not-asked", "note")
    assert "the next submission uses its answer" in answer.message
