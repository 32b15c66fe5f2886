"""`xsft submit --wait` and `--follow`: played through with answers in turn, as `wait` is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.observations import said as said_of
from tests.replacing import replace
from tests.runs.test_read_evidence_explain import FAILED, pod
from tests.runs.test_read_evidence_explain import log as log_of
from tests.runs.test_waiting import DEAF, Played, at
from tests.submissions import NAME, planned
from xsft.base.errors import Refused, RunFailed, TimedOut, Unreachable, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.base.reporting import Reporter
from xsft.cluster.evidence import Evidence
from xsft.cluster.observation import Observation, Status
from xsft.launch.identity import Proposal
from xsft.launch.submission import Submission
from xsft.launch.submit import submit_cluster
from xsft.launch.wait_for_end import WaitOptions
from xsft.runs.cause_rule import Cause
from xsft.runs.failures import diagnose
from xsft.runs.lookup import FoldedRun, RunsRead
from xsft.runs.rows import Row
from xsft.runs.waiting import RecordWait, WaitLimits
from xsft.verbs.submission import report_submission, submission_document
from xsft.verbs.terminal import TAIL, terminal
from xsft.verbs.why_text import cause_lines, log_lines

PLAN = planned()
CONFIG_ERROR = "MAXTEXT CONFIG ERROR: unknown key stepz"


class Submitted:
    """A submitter that has done its work, after it asked about the proposal, if there is one."""

    def __init__(self, action: Any, problems: tuple[Problem, ...], ask: Callable[[], None]) -> None:
        self.action, self.problems, self.ask = action, problems, ask

    def submit(self, plan: Any) -> Submission:
        self.ask()
        if self.action == "refused":
            raise Refused("no", fix="none")
        return Submission(
            plan=plan, action=self.action, jobset=NAME, uid="uid-1", record=None, steps=None, problems=self.problems
        )


def cause_of(evidence: Evidence, cause: Cause) -> Iterator[str]:
    yield from log_lines(evidence, tail=TAIL)
    yield from cause_lines(cause)


def named(read: RunsRead) -> RunsRead:
    return replace(read, observations=tuple(replace(observation, run_name=NAME) for observation in read.observations))


def submit(
    *answers: RunsRead,
    lines: Callable[[Observation], Iterator[str]] | None = None,
    log: ShowLine = lambda _line: None,
    timeout_s: float | None = 3600,
    json: bool = False,
    action: str = "created",
    gather: Callable[[FoldedRun], Evidence] | None = None,
    said: list[str] | None = None,
    pause: Callable[[float], None] | None = None,
    warnings: tuple[Problem, ...] = (),
    problems: tuple[Problem, ...] = (),
    record: RecordWait = lambda _row: (),
    listener: Reporter | None = None,
    proposal: Proposal | None = None,
    **asking: Any,
) -> int:
    played = Played(*map(named, answers))
    clock = played.clock if pause is None else replace(played.clock, pause=pause)
    after = WaitOptions(
        look=played.look,
        patience=WaitLimits(timeout_s=timeout_s, poll_s=10),
        clock=clock,
        say=(played.lines if said is None else said).append,
        lines=lines,
        log=log,
        explain=lambda evidence, cause: (said if said is not None else []).extend(cause_of(evidence, cause)),
        gather=gather,
        record=record,
    )

    def connect(*, progress: ShowLine, confirm: Callable[[Proposal], None]) -> Any:
        return Submitted(action, problems, ask=lambda: confirm(proposal) if proposal else None)

    end = submit_cluster(
        replace(PLAN, problems=warnings),
        connect=connect,
        listener=listener or terminal(as_json=json),
        wait=after.wait,
        **asking,
    )
    return report_submission(end, submission_document(end), as_json=json)


@pytest.mark.parametrize(
    ("answers", "timeout_s", "kind"),
    [
        ((at("queued"), at("failed", 3)), 3600, RunFailed),
        ((at("queued"),), 60, TimedOut),
        ((DEAF,), 60, Unreachable),
    ],
    ids=["run fails", "queued too long", "no answer"],
)
@pytest.mark.parametrize("follow", [False, True])
def test_submit_raises_the_error_that_ends_its_wait(
    answers: tuple[RunsRead, ...], timeout_s: float, kind: type[XsftError], follow: bool
) -> None:
    with pytest.raises(kind):
        submit(*answers, timeout_s=timeout_s, lines=(lambda _seen: iter(())) if follow else None)


def failing(hit: FoldedRun) -> Evidence:
    """Host 5 said why, and host 0 that it lost its peer."""
    pods = (pod(0, exit_code=137), pod(5))
    lines = (*(f"line {i}" for i in range(30)), CONFIG_ERROR)
    return Evidence(
        seen=replace(hit.seen, pods=pods, jobset=FAILED),
        status=Status(state="failed", reason="trainer-failed"),
        logs=(replace(log_of(5), lines=lines, said=diagnose(lines)),),
    )


@pytest.mark.parametrize("follow", [False, True])
def test_a_run_that_fails_is_explained_with_its_last_lines(follow: bool) -> None:
    said: list[str] = []
    with pytest.raises(RunFailed) as failed:
        submit(at("queued"), at("failed"), gather=failing, said=said, lines=(lambda _: iter(())) if follow else None)
    assert failed.value.fix == f"xsft why {NAME}"
    first = said.index("the last lines of slice 0 host 5 (pod gemma-slice-job-0-5-xtx22):")
    assert said[first + 1 : first + 21] == [*(f"  | line {i}" for i in range(11, 30)), f"  | {CONFIG_ERROR}"]
    assert "stepz" in said[first + 21]
    assert said[-1].startswith("next: ")


@pytest.mark.parametrize("answer", [at("succeeded", 1000), at("cancelled")], ids=["succeeded", "cancelled"])
def test_a_run_that_did_not_fail_is_not_explained(answer: RunsRead) -> None:
    said: list[str] = []
    with suppress(RunFailed):
        submit(answer, gather=failing, said=said)
    assert len(said) == 1


def test_an_interrupted_wait_says_that_the_run_continues() -> None:
    def pause(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        submit(at("queued"), pause=pause)
    (note,) = stopped.value.__notes__
    assert "is unaffected and continues" in note
    assert all(f"xsft {verb} {NAME}" in note for verb in ("wait", "logs", "cancel"))


NOTHING = "failed/no-target-tokens"


@pytest.mark.parametrize("action", ["created", "finished"])
def test_a_run_that_learned_nothing_fails_is_explained_and_recorded(action: str) -> None:
    said: list[str] = []
    recorded: list[str] = []

    def record(row: Row) -> tuple[Problem, ...]:
        recorded.append(row.reason)
        return ()

    with pytest.raises(RunFailed, match="no-target-tokens"):
        submit(at(NOTHING, 1000), action=action, gather=learning_nothing, said=said, record=record)
    assert recorded == ["no-target-tokens"]
    assert any("The model was not trained in 40 steps in a row" in line for line in said)


def test_a_run_that_learns_nothing_is_given_up_while_it_is_active() -> None:
    said: list[str] = []
    with pytest.raises(RunFailed) as failed:
        submit(
            at("training", 1),
            at("training/no-target-tokens", 40),
            lines=lambda _: iter(()),
            gather=learning_nothing,
            said=said,
        )
    assert failed.value.fix == f"xsft why {NAME}. It still runs: xsft cancel {NAME} ends it."
    assert any("The model was not trained in 40 steps in a row" in line for line in said)


def learning_nothing(hit: FoldedRun) -> Evidence:
    progress = said_of(1000, no_target_steps=40)
    return Evidence(seen=replace(hit.seen, progress=progress), status=hit.status)


def test_the_log_is_shown_until_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    log: list[str] = []

    def lines(observation: Observation) -> Iterator[str]:
        assert observation.run_name == NAME
        yield from ("step 1", "step 2")

    assert (
        submit(at("queued"), at("training", 1), at("training", 2), at("succeeded", 1000), lines=lines, log=log.append)
        == 0
    )
    assert log == ["step 1", "step 2"]
    assert capsys.readouterr().out.splitlines()[-1].endswith("loss 2.346")


def test_an_unchanged_state_is_printed_once() -> None:
    said: list[str] = []
    submit(
        at("queued"), at("training", 1), at("training", 1), at("succeeded", 1000), lines=lambda _: iter(()), said=said
    )
    assert [line.split()[1] for line in said] == ["queued", "training", "succeeded"]


def test_a_log_that_cannot_be_followed_does_not_end_the_waiting() -> None:
    def silent(_seen: Observation) -> Iterator[str]:
        raise Unreachable("the kubelet does not answer")

    assert submit(at("training", 1), at("training", 2), at("succeeded", 1000), lines=silent) == 0


def test_a_silent_log_does_not_outlast_the_timeout() -> None:
    over = threading.Event()

    def endless(_seen: Observation) -> Iterator[str]:
        over.wait(30)
        yield from ()

    with pytest.raises(TimedOut):
        submit(at("training", 1), lines=endless, timeout_s=30)
    over.set()
