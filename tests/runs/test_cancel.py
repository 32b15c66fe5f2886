from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from tests.observations import NOW, finished, jobset, judged, local, observed, queued, runs_read
from tests.replacing import replace
from tests.verbs.test_status import SILENT
from xsft.base.errors import Refused, Unreachable, UsageError, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.cluster.exactly_once import DeleteOutcome
from xsft.cluster.observation import Observation, Recorded, RunObject, Status, Unread
from xsft.runs.cancel import CancelResult, cancel_run
from xsft.runs.lookup import RunsAnswer, RunsRead, answer_of
from xsft.runs.losing import SavedSteps

AT_100 = SavedSteps(step=100)
RUNS_HERE = local("tiny", record=Recorded(outcome="running", started_at=NOW, alive=True))


@dataclass
class Told:
    """The requests for deletion that were made."""

    found: RunsRead
    answer: bool | None = None
    outcome: DeleteOutcome = "deleted"
    provable: bool = True
    failing: Problem | None = None
    checkpoints: SavedSteps = AT_100
    deleted: list[tuple[str, str, str]] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    looked: list[str] = field(default_factory=list)
    """Runs whose checkpoints were asked for."""

    def delete(self, observation: Observation, run_object: RunObject) -> DeleteOutcome:
        assert run_object.uid, "never without a UID"
        self.deleted.append((run_object.namespace, run_object.name, run_object.uid))
        return self.outcome

    def record_cancel(self, observation: Observation, run_object: RunObject) -> tuple[Problem, ...]:
        self.recorded.append(run_object.uid)
        return (self.failing,) if self.failing else ()

    def stop_local(self, observation: Observation) -> bool:
        self.interrupted.append(observation.output or observation.run_name)
        return self.provable

    def saved(self, observation: Observation) -> SavedSteps:
        self.looked.append(observation.run_name)
        return self.checkpoints

    def ask(self, question: str) -> bool:
        self.questions.append(question)
        return bool(self.answer)

    def now(self) -> str:
        return NOW

    def look(self) -> RunsAnswer:
        return answer_of(self.found, classify=state, now=NOW)

    def listen(self, say: ShowLine, /) -> None: ...

    def keep(self, observations: Iterable[tuple[Observation, Status]], /) -> None: ...

    def cancel(self, name: str) -> CancelResult:
        return cancel_run(name, runs=self, agree=lambda _about: None)


def state(observation: Observation) -> Status:
    return Status(state="unknown") if observation.unread else judged(observation)


STORY = (
    observed("gemma"),
    observed("gemma-long"),
    queued("next"),
    finished("old", at="2026-11-20T00:00:00Z"),
    RUNS_HERE,
)


def test_cancel_deletes_a_queued_run_without_a_look_at_its_steps() -> None:
    canceller = Told(runs_read(STORY))
    assert canceller.cancel("next").action == "cancelled"
    assert canceller.looked == [], "one that waits has nothing to lose"
    assert canceller.deleted == [("default", "next", "uid-next")]


DELETING = observed("leaving", jobset=jobset("leaving", deleting_at="2026-11-21T11:59:00Z"))
GONE = observed("gone", jobset=None, progress=None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("old", "it has ended: succeeded"),
        ("leaving", "being deleted since"),
        ("gone", "it has no JobSet on its cluster"),
    ],
)
def test_cancel_exits_0_for_a_run_that_has_ended_or_is_being_deleted(name: str, words: str) -> None:
    canceller = Told(runs_read((*STORY, DELETING, GONE)))
    done = canceller.cancel(name)
    assert done.action == "nothing"
    assert words in done.why
    assert canceller.deleted == canceller.recorded == []


@pytest.mark.parametrize("outcome", ["gone", "other"])
def test_cancel_reports_a_jobset_that_another_client_deleted_first(
    outcome: DeleteOutcome,
) -> None:
    canceller = Told(runs_read(STORY), outcome=outcome)
    done = canceller.cancel("gemma")
    assert (done.action, canceller.recorded) == ("nothing", [])
    assert "another client" in done.why
    assert ("another JobSet has its name" in done.why) == (outcome == "other")


ELSEWHERE = observed("gemma", cluster="elsewhere")


@pytest.mark.parametrize(
    ("read_before", "name", "kind"),
    [
        (runs_read(STORY), "gem", UsageError),
        (runs_read((*STORY, ELSEWHERE)), "gemma", UsageError),
        (runs_read(STORY, (SILENT,), whole=False), "other", Unreachable),
        (runs_read((), (SILENT,), answered=False, whole=False), "gemma", Unreachable),
        (
            runs_read((observed("gemma", jobset=None, unread=(Unread(what="jobsets", why="timeout."),)),), (SILENT,)),
            "gemma",
            Unreachable,
        ),
        (
            runs_read((observed("gemma", unread=(Unread(what="jobsets", why="timeout."),)),), (SILENT,)),
            "gemma",
            Unreachable,
        ),
    ],
    ids=[
        "beginning of a name",
        "two runs of one name",
        "cluster unread",
        "no answer",
        "its cluster unread",
        "last known state only",
    ],
)
def test_cancel_changes_nothing_unless_the_run_is_identified(
    read_before: RunsRead, name: str, kind: type[XsftError]
) -> None:
    canceller = Told(read_before)
    with pytest.raises(kind):
        canceller.cancel(name)
    assert canceller.deleted == canceller.recorded == canceller.interrupted == []


def test_cancel_deletes_the_live_one_of_several_attempts() -> None:
    failed = observed(jobset=jobset("gemma", terminal="Failed"))
    alive = observed(jobset=jobset("gemma-2", run_name="gemma", created_at="2026-11-21T11:00:00Z"))
    canceller = Told(runs_read((failed, alive)))
    assert canceller.cancel("gemma").action == "cancelled"
    assert canceller.deleted == [("default", "gemma-2", "uid-gemma-2")]


@pytest.mark.parametrize(
    "record", [None, Recorded(outcome="running", started_at=NOW, alive=False)], ids=["no record", "ended process"]
)
def test_a_run_on_this_machine_without_a_process_is_left_alone(record: Recorded | None) -> None:
    canceller = Told(runs_read((replace(RUNS_HERE, record=record),)))
    done = canceller.cancel("tiny")
    assert (done.action, done.jobset, canceller.interrupted) == ("nothing", None, [])
    assert done.why == "no xsft process is running it"


def test_cancel_refuses_a_name_that_two_local_runs_have() -> None:
    canceller = Told(
        runs_read((replace(RUNS_HERE, output="/data/a"), replace(RUNS_HERE, output="/data/b"))), answer=True
    )
    with pytest.raises(UsageError) as raised:
        canceller.cancel("tiny")
    assert "this machine, /data/a/tiny" in raised.value.message
    assert "this machine, /data/b/tiny" in raised.value.message
    assert raised.value.fix == "Choose one: its folder instead of its name (/data/a/tiny)."
    assert canceller.interrupted == []
    assert canceller.cancel("/data/b/tiny").action == "cancelled"
    assert canceller.interrupted == ["/data/b"]


def test_cancel_refuses_a_name_that_a_local_and_a_cluster_run_have() -> None:
    canceller = Told(runs_read((replace(RUNS_HERE, output="/data/a"), observed("tiny"))))
    with pytest.raises(UsageError) as raised:
        canceller.cancel("tiny")
    assert "(/data/a/tiny); or --place NAME" in raised.value.fix
    assert canceller.deleted == canceller.interrupted == []


def test_cancel_refuses_a_local_run_whose_process_cannot_be_identified() -> None:
    canceller = Told(runs_read(STORY), provable=False)
    with pytest.raises(Refused, match="could not be identified") as raised:
        canceller.cancel("tiny")
    assert "Ctrl-C" in raised.value.fix
