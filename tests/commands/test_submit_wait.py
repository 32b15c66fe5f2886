"""`xsft submit --wait` and `--follow`: played through with answers in turn, as `wait` is."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.commands.test_waiting import DEAF, EMPTY, Played, at, state_told
from tests.observations import NOW, Read
from tests.submissions import NAME, planned
from xsft.commands.interface import DOCUMENTS
from xsft.commands.status import Screen
from xsft.commands.submit_cluster import submit_cluster
from xsft.commands.submit_wait import After
from xsft.commands.verbs import parser
from xsft.commands.waiting import Patience
from xsft.effects.submission import Submission
from xsft.errors import RunFailed, TimedOut, Unreachable, UsageError, XsftError
from xsft.states.folding import Wanted
from xsft.states.model import Observation

PLAN = planned()


class Submitted:
    """A submitter that has done its work."""

    def __init__(self, action: Any = "created") -> None:
        self.action = action

    def submit(self, plan: Any) -> Submission:
        return Submission(plan=plan, action=self.action, jobset=NAME, uid="uid-1", record=None, steps=None)


def named(read: Read) -> Read:
    return Read(
        tuple(replace(seen, run_name=NAME) for seen in read.observations), read.problems, read.answered, read.whole
    )


def submit(
    *answers: Read,
    lines: Callable[[Observation], Iterator[str]] | None = None,
    log: io.StringIO | None = None,
    timeout_s: float | None = 3600,
    json: bool = False,
    action: str = "created",
) -> int:
    played = Played(*map(named, answers))
    after = After(
        screen=Screen(read=played.read, classify=state_told, wanted=Wanted(everything=True), now=lambda: NOW),
        patience=Patience(timeout_s=timeout_s, poll_s=10),
        clock=played.clock,
        say=played.lines.append,
        lines=lines,
        log=log or io.StringIO(),
    )
    connect: Any = lambda progress: Submitted(action)  # noqa: E731
    return submit_cluster(PLAN, connect=connect, json=json, wait=after.wait)


def test_it_is_created_and_then_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(EMPTY, at("queued"), at("training", 5), at("succeeded", 1000)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{NAME}: created JobSet")
    assert lines[-1] == f"{NAME}  succeeded  step 1000/1000  loss 2.346"


@pytest.mark.parametrize(
    ("answers", "timeout_s", "kind"),
    [
        ((at("queued"), at("failed", 3)), 3600, RunFailed),
        ((at("queued"),), 60, TimedOut),
        ((DEAF,), 60, Unreachable),
    ],
)
@pytest.mark.parametrize("follow", [False, True])
def test_its_end_is_the_exit_status(
    answers: tuple[Read, ...], timeout_s: float, kind: type[XsftError], follow: bool
) -> None:
    with pytest.raises(kind):
        submit(*answers, timeout_s=timeout_s, lines=(lambda _seen: iter(())) if follow else None)


def test_a_finished_run_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(DEAF, action="finished") == 0


def test_the_log_is_shown_until_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    log = io.StringIO()

    def lines(seen: Observation) -> Iterator[str]:
        assert seen.run_name == NAME
        yield from ("step 1", "step 2")

    assert submit(at("queued"), at("training", 1), at("training", 2), at("succeeded", 1000), lines=lines, log=log) == 0
    assert log.getvalue() == "step 1\nstep 2\n"
    assert capsys.readouterr().out.splitlines()[-1].endswith("loss 2.346")


def test_a_log_that_cannot_be_followed_does_not_end_the_waiting() -> None:
    def silent(_seen: Observation) -> Iterator[str]:
        raise Unreachable("the kubelet does not answer")

    assert submit(at("training", 1), at("training", 2), at("succeeded", 1000), lines=silent) == 0


def test_a_silent_log_does_not_outlast_the_time() -> None:
    over = threading.Event()

    def endless(_seen: Observation) -> Iterator[str]:
        over.wait(30)
        yield from ()

    with pytest.raises(TimedOut):
        submit(at("training", 1), lines=endless, timeout_s=30)
    over.set()


@pytest.mark.parametrize(("answers", "status"), [((at("succeeded", 1000),), 0), ((at("failed", 3),), 6)])
def test_one_document_at_the_end(answers: tuple[Read, ...], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(at("training", 1), *answers, json=True) == status
    (line,) = capsys.readouterr().out.splitlines()
    DOCUMENTS["submit"].model_validate_json(line)
    made = json.loads(line)
    assert (made["action"], made["exit_status"], made["run"]["state"]) == (
        "created",
        status,
        "succeeded" if status == 0 else "failed",
    )
    assert bool(made["problems"]) == bool(status)


def test_a_time_without_waiting_is_refused() -> None:
    from xsft.commands.submit import run

    with pytest.raises(UsageError, match="--timeout is for --wait"):
        run(parser(only="submit").parse_args(("submit", "w.yaml", "--timeout", "2h")))
