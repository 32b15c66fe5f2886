from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.commands.test_status import SILENT
from tests.documents import read_document
from tests.observations import NOW, Read, finished, jobset, judged, local, observed, queued, said
from tests.replacing import replace
from xsft.actions.runs.cancel import CancelWorld
from xsft.commands.cancel import cancel
from xsft.effects.cluster.delete import Deleted
from xsft.errors import Refused, Unreachable, UsageError, XsftError
from xsft.problems import Problem, warning
from xsft.run_query import RunQuery
from xsft.screen.asking import confirm
from xsft.states.folding import RowFilter
from xsft.states.losing import SavedSteps
from xsft.states.model import Observation, Recorded, RunObject, Status, Unread

AT_100 = SavedSteps(step=100)
RUNS_HERE = local("tiny", record=Recorded(outcome="running", started_at=NOW, alive=True))


@dataclass
class Told:
    """The requests for deletion that the verb made."""

    found: Read
    answer: bool | None = None
    outcome: Deleted = "deleted"
    provable: bool = True
    failing: Problem | None = None
    checkpoints: SavedSteps = AT_100
    deleted: list[tuple[str, str, str]] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    looked: list[str] = field(default_factory=list)
    """Runs whose checkpoints were asked for."""

    def delete(self, seen: Observation, there: RunObject) -> Deleted:
        assert there.uid, "never without a UID"
        self.deleted.append((there.namespace, there.name, there.uid))
        return self.outcome

    def record(self, seen: Observation, there: RunObject) -> tuple[Problem, ...]:
        self.recorded.append(there.uid)
        return (self.failing,) if self.failing else ()

    def stop_local(self, seen: Observation) -> bool:
        self.interrupted.append(seen.output or seen.run_name)
        return self.provable

    def saved(self, seen: Observation) -> SavedSteps:
        self.looked.append(seen.run_name)
        return self.checkpoints

    def ask(self, question: str) -> bool:
        self.questions.append(question)
        return bool(self.answer)

    def cancel(self, name: str, *, yes: bool = False, json: bool = False) -> int:
        query = RunQuery(read=lambda: self.found, classify=state, wanted=RowFilter(everything=True), now=lambda: NOW)
        world = CancelWorld(
            query=query,
            delete=self.delete,
            stop_local=self.stop_local,
            record=self.record,
            saved=self.saved,
            confirm=None if self.answer is None else self.ask,
        )
        return cancel(name, world=world, yes=yes, json=json)


def state(seen: Observation, *, now: str) -> Status:
    return Status(state="unknown") if seen.unread else judged(seen, now=now)


STORY = (
    observed("gemma"),
    observed("gemma-long"),
    queued("next"),
    finished("old", at="2026-11-20T00:00:00Z"),
    RUNS_HERE,
)


def test_exactly_that_run_is_deleted_by_its_uid(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(Read(STORY), answer=True)
    assert told.cancel("gemma") == 0
    assert told.deleted == [("default", "gemma", "uid-gemma")]
    assert told.recorded == ["uid-gemma"]
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [
        "gemma  training  step 120/1000  loss 2.346",
        "  JobSet gemma, uid uid-gemma, namespace default of my-project/us-east5-b/my-cluster",
        "  20 steps since the checkpoint of step 100 would be lost (it is at step 120)",
        "  512 chips would be freed",
    ]
    assert shown.out.splitlines() == [
        "gemma: cancelled: JobSet gemma, uid uid-gemma, is deleted; 512 chips are freed",
        "checkpoints  gs://my-bucket/runs/gemma/checkpoints (kept; submitting again resumes)",
    ]


LATE = Read((observed("gemma", progress=said(1900, saved_step=None)),))
"""Its last save is further back than the end of its log that is read."""


def test_a_checkpoint_that_only_the_bucket_shows_counts(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(LATE, checkpoints=SavedSteps(step=1000))
    assert told.cancel("gemma", yes=True, json=True) == 0
    shown = capsys.readouterr()
    assert "  900 steps since the checkpoint of step 1000 would be lost (it is at step 1900)" in shown.err.splitlines()
    made = json.loads(shown.out)
    assert (made["saved_step"], made["lost_steps"]) == (1000, 900)


def test_a_bucket_that_cannot_be_read_makes_the_loss_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(LATE, checkpoints=SavedSteps(why="permission denied (HTTP 403)"))
    assert told.cancel("gemma", yes=True, json=True) == 0
    shown = capsys.readouterr()
    assert "how many steps would be lost is unknown: it is at step 1900" in shown.err
    assert "permission denied (HTTP 403)" in shown.err
    made = json.loads(shown.out)
    assert (made["saved_step"], made["lost_steps"]) == (None, None)


def test_yes_asks_nothing() -> None:
    told = Told(Read(STORY))
    assert told.cancel("next", yes=True) == 0
    assert told.looked == [], "one that waits has nothing to lose"
    assert told.deleted == [("default", "next", "uid-next")]


@pytest.mark.parametrize("answer", [False, None])
def test_no_and_no_terminal_delete_nothing(answer: bool | None) -> None:
    told = Told(Read(STORY), answer=answer)
    with pytest.raises(Refused, match="Nothing was cancelled") as raised:
        told.cancel("gemma")
    assert raised.value.exit_status == 4
    assert "--yes" in raised.value.fix
    assert told.deleted == []
    assert told.questions == ([] if answer is None else ["Cancel it? [y/N] "])


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
def test_there_may_be_nothing_to_cancel(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(Read((*STORY, DELETING, GONE)))
    assert told.cancel(name) == 0
    assert told.deleted == told.recorded == []
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("outcome", ["gone", "other"])
def test_one_that_another_user_deleted_meanwhile_is_not_claimed(
    outcome: Deleted, capsys: pytest.CaptureFixture[str]
) -> None:
    told = Told(Read(STORY), outcome=outcome)
    assert told.cancel("gemma", yes=True) == 0
    assert told.recorded == []
    said = capsys.readouterr().out
    assert "another client" in said
    assert ("another JobSet has its name" in said) == (outcome == "other")


ELSEWHERE = observed("gemma", cluster="elsewhere")


@pytest.mark.parametrize(
    ("found", "name", "kind"),
    [
        (Read(STORY), "gem", UsageError),
        (Read((*STORY, ELSEWHERE)), "gemma", UsageError),
        (Read(STORY, (SILENT,), whole=False), "other", Unreachable),
        (Read((), (SILENT,), answered=False, whole=False), "gemma", Unreachable),
        (
            Read((observed("gemma", jobset=None, unread=(Unread(what="jobsets", why="timeout"),)),), (SILENT,)),
            "gemma",
            Unreachable,
        ),
        (Read((observed("gemma", unread=(Unread(what="jobsets", why="timeout"),)),), (SILENT,)), "gemma", Unreachable),
    ],
    ids=["a beginning", "two of that name", "perhaps elsewhere", "silence", "its cluster is", "earlier state is known"],
)
def test_what_is_not_surely_that_run_is_not_touched(found: Read, name: str, kind: type[XsftError]) -> None:
    told = Told(found)
    with pytest.raises(kind):
        told.cancel(name, yes=True)
    assert told.deleted == told.recorded == told.interrupted == []


def test_of_several_attempts_the_live_one_goes() -> None:
    failed = observed(jobset=jobset("gemma", terminal="Failed"))
    alive = observed(jobset=jobset("gemma-2", run_name="gemma", created_at="2026-11-21T11:00:00Z"))
    told = Told(Read((failed, alive)))
    assert told.cancel("gemma", yes=True) == 0
    assert told.deleted == [("default", "gemma-2", "uid-gemma-2")]


def test_a_run_created_by_xpk_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(Read((observed("theirs", jobset=jobset("theirs", ours=False)),)))
    assert told.cancel("theirs", yes=True) == 0
    assert "(not created by xsft)" in capsys.readouterr().err
    assert told.cancel("theirs", yes=True, json=True) == 0
    assert json.loads(capsys.readouterr().out)["ours"] is False


def test_a_run_on_this_machine_is_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(Read(STORY), answer=True)
    assert told.cancel("tiny") == 0
    assert (told.interrupted, told.deleted) == (["tiny"], [])
    capsys.readouterr()
    assert told.cancel("tiny", yes=True, json=True) == 0
    made = document(capsys)
    assert (made["action"], made["jobset"], made["saved_step"]) == ("cancelled", None, 100)
    for declined in (False, None):
        told = Told(Read(STORY), answer=declined)
        with pytest.raises(Refused, match="Nothing was cancelled"):
            told.cancel("tiny")
        assert told.interrupted == []


@pytest.mark.parametrize("record", [None, Recorded(outcome="running", started_at=NOW, alive=False)])
def test_a_run_on_this_machine_without_a_process_is_left_alone(
    record: Recorded | None, capsys: pytest.CaptureFixture[str]
) -> None:
    told = Told(Read((replace(RUNS_HERE, record=record),)))
    assert told.cancel("tiny", yes=True, json=True) == 0
    made = document(capsys)
    assert (made["action"], made["jobset"], told.interrupted) == ("nothing", None, [])
    assert made["why"] == "no xsft process is running it"


def test_of_two_local_runs_of_one_name_none_is_interrupted() -> None:
    told = Told(Read((replace(RUNS_HERE, output="/data/a"), replace(RUNS_HERE, output="/data/b"))), answer=True)
    with pytest.raises(UsageError) as raised:
        told.cancel("tiny", yes=True)
    assert "this machine, /data/a/tiny" in raised.value.message
    assert "this machine, /data/b/tiny" in raised.value.message
    assert raised.value.fix == "Choose one: its folder instead of its name (/data/a/tiny)."
    assert told.interrupted == []
    assert told.cancel("/data/b/tiny") == 0
    assert told.interrupted == ["/data/b"]


def test_a_local_run_and_a_cluster_run_are_distinguished() -> None:
    told = Told(Read((replace(RUNS_HERE, output="/data/a"), observed("tiny"))))
    with pytest.raises(UsageError) as raised:
        told.cancel("tiny", yes=True)
    assert "(/data/a/tiny); or --place NAME" in raised.value.fix
    assert told.deleted == told.interrupted == []


def test_a_run_on_this_machine_that_cannot_be_proven_is_left_alone() -> None:
    told = Told(Read(STORY), provable=False)
    with pytest.raises(Refused, match="could not be identified") as raised:
        told.cancel("tiny", yes=True)
    assert "Ctrl-C" in raised.value.fix


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = capsys.readouterr().out.splitlines()
    read_document("cancel", line)
    found: dict[str, Any] = json.loads(line)
    return found


def test_the_documents(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(Read(STORY), failing=warning("record-not-completed", "", "No record.", ""))
    assert told.cancel("gemma", yes=True, json=True) == 0
    made = document(capsys)
    assert (made["action"], made["uid"], made["lost_steps"], made["freed_chips"]) == ("cancelled", "uid-gemma", 20, 512)
    assert made["problems"][0]["id"] == "record-not-completed"
    assert told.cancel("old", json=True) == 0
    assert document(capsys)["action"] == "nothing"


@pytest.mark.parametrize(
    ("answer", "meant"),
    [("y\n", True), ("YES\n", True), (" y \n", True), ("\n", False), ("", False), ("n\n", False), ("yep\n", False)],
)
def test_only_a_yes_is_a_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, meant: bool
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert confirm("Cancel it? [y/N] ") is meant
    assert capsys.readouterr() == ("", "Cancel it? [y/N] ")
