from __future__ import annotations

from pathlib import Path

from tests.observations import NOW, jobset, local, observed, said
from tests.replacing import replace
from xsft.base.errors import Unreachable
from xsft.cluster.observation import RunObject, Status
from xsft.machine.objects import LocalObjects, Objects
from xsft.records.record import Attempt, AttemptFacts, Record
from xsft.records.record_files import RecordRef, RecordStore
from xsft.runs.record_end import record_cancel, record_worthless
from xsft.runs.rows import Row, row_of


def store(tmp_path: Path) -> RecordStore:
    return RecordStore(
        state=tmp_path / "state", objects_at=lambda _path: LocalObjects(), now=lambda: "2026-11-21T12:00:00Z"
    )


def submitted(tmp_path: Path, name: str, *, uid: str | None, number: int = 1) -> None:
    attempt = Attempt(number=number, outcome="submitting", submitter="ab" * 8, jobset=name, namespace="default")
    record = Record(run_name="gemma", target="xpk", output=str(tmp_path), attempts=(attempt,))
    begun = store(tmp_path).begin(record)
    assert isinstance(begun, RecordRef)
    if uid:
        store(tmp_path).finish(begun, AttemptFacts(outcome="created", at="2026-11-21T10:00:00Z", uid=uid))


def cancelled(tmp_path: Path, run_object: RunObject) -> list[tuple[str, str | None]]:
    assert record_cancel(store(tmp_path), run_object, user="ann") == ()
    return [
        (run_record.last.outcome, run_record.last.reason)
        for run_record in store(tmp_path).read_run(str(tmp_path), "gemma")
    ]


def test_record_cancel_records_the_attempt_with_the_uid_of_the_jobset(tmp_path: Path) -> None:
    submitted(tmp_path, "gemma", uid="uid-1")
    submitted(tmp_path, "gemma-2", uid="uid-2", number=2)
    jobset_object = jobset("gemma-2", uid="uid-2", run_name="gemma", output=str(tmp_path))
    assert cancelled(tmp_path, jobset_object) == [("created", None), ("cancelled", "cancelled by ann")]


def test_record_cancel_finds_an_attempt_without_a_uid_by_its_name(tmp_path: Path) -> None:
    submitted(tmp_path, "gemma", uid=None)
    assert cancelled(tmp_path, jobset("gemma", uid="uid-9", output=str(tmp_path)))[0][0] == "cancelled"


def test_record_cancel_leaves_an_attempt_with_another_uid(tmp_path: Path) -> None:
    submitted(tmp_path, "gemma", uid="uid-1")
    assert cancelled(tmp_path, jobset("gemma", uid="uid-9", output=str(tmp_path))) == [("created", None)]


def test_record_cancel_accepts_a_jobset_without_a_record(tmp_path: Path) -> None:
    assert record_cancel(store(tmp_path), jobset(output=str(tmp_path)), user="ann") == ()
    assert record_cancel(store(tmp_path), jobset(output=None), user="ann") == ()


def worthless(tmp_path: Path, *, uid: str = "uid-1", reason: str = "no-target-tokens") -> Row:
    jobset_object = jobset("gemma", uid=uid, output=str(tmp_path))
    observation = observed(jobset=jobset_object, progress=said(1000, no_target_steps=40))
    return row_of(observation, Status(state="failed", reason=reason), now=NOW)


def test_record_worthless_records_a_run_without_target_tokens_once(tmp_path: Path) -> None:
    submitted(tmp_path, "gemma", uid="uid-1")
    for _ in range(2):
        assert record_worthless(store(tmp_path), worthless(tmp_path)) == ()
    (record,) = store(tmp_path).read_run(str(tmp_path), "gemma")
    assert (record.last.outcome, record.last.state_reason) == ("failed", "no-target-tokens")
    assert "40 steps in a row had no target token" in (record.last.reason or "")
    assert len(list((tmp_path / "gemma" / "xsft").glob("attempt-1.failed*"))) == 1


def test_record_worthless_records_no_other_failure(tmp_path: Path) -> None:
    submitted(tmp_path, "gemma", uid="uid-1")
    assert record_worthless(store(tmp_path), worthless(tmp_path, reason="trainer-failed")) == ()
    assert record_worthless(store(tmp_path), worthless(tmp_path, uid="uid-9")) == ()
    assert (
        record_worthless(store(tmp_path), row_of(local(), Status(state="failed", reason="no-target-tokens"), now=NOW))
        == ()
    )
    assert [run_record.last.outcome for run_record in store(tmp_path).read_run(str(tmp_path), "gemma")] == ["created"]


def test_a_cancel_after_a_recorded_failure_is_the_outcome(tmp_path: Path) -> None:
    submitted(tmp_path, "gemma", uid="uid-1")
    record_worthless(store(tmp_path), worthless(tmp_path))
    later = replace(store(tmp_path), now=lambda: "2026-11-21T13:00:00Z")
    assert record_cancel(later, jobset("gemma", uid="uid-1", output=str(tmp_path)), user="ann") == ()
    (record,) = later.read_run(str(tmp_path), "gemma")
    assert (record.last.outcome, record.last.state_reason) == ("cancelled", None)


def test_record_worthless_warns_if_the_record_cannot_be_written(tmp_path: Path) -> None:
    def silent(_path: str) -> Objects:
        raise Unreachable("the bucket does not answer")

    (problem,) = record_worthless(RecordStore(state=tmp_path, objects_at=silent), worthless(tmp_path))
    assert (problem.id, problem.severity) == ("end-not-recorded", "warning")


def test_record_cancel_warns_if_the_record_cannot_be_written(tmp_path: Path) -> None:
    def silent(_path: str) -> Objects:
        raise Unreachable("the bucket does not answer")

    (problem,) = record_cancel(RecordStore(state=tmp_path, objects_at=silent), jobset(), user="ann")
    assert (problem.id, problem.severity) == ("cancel-not-recorded", "warning")
    assert "does not answer" in problem.message
