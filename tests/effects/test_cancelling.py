from __future__ import annotations

from pathlib import Path

from tests.observations import jobset
from xsft.effects.cancelling import record_cancel
from xsft.effects.objects import LocalObjects, Objects
from xsft.effects.records import RecordRef, RecordStore
from xsft.errors import Unreachable
from xsft.records.model import Attempt, Facts, Record
from xsft.states.model import JobSet


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
        store(tmp_path).finish(begun, Facts(outcome="created", at="2026-11-21T10:00:00Z", uid=uid))


def cancelled(tmp_path: Path, there: JobSet) -> list[tuple[str, str | None]]:
    assert record_cancel(store(tmp_path), there, user="ann") == ()
    return [(one.last.outcome, one.last.reason) for one in store(tmp_path).read_run(str(tmp_path), "gemma")]


def test_the_attempt_of_that_uid_is_cancelled(tmp_path: Path) -> None:
    submitted(tmp_path, "gemma", uid="uid-1")
    submitted(tmp_path, "gemma-2", uid="uid-2", number=2)
    there = jobset("gemma-2", uid="uid-2", run_name="gemma", output=str(tmp_path))
    assert cancelled(tmp_path, there) == [("created", None), ("cancelled", "cancelled by ann")]


def test_one_whose_submitter_died_before_it_knew_the_uid_is_found_by_name(tmp_path: Path) -> None:
    submitted(tmp_path, "gemma", uid=None)
    assert cancelled(tmp_path, jobset("gemma", uid="uid-9", output=str(tmp_path)))[0][0] == "cancelled"


def test_a_record_of_another_uid_stays(tmp_path: Path) -> None:
    submitted(tmp_path, "gemma", uid="uid-1")
    assert cancelled(tmp_path, jobset("gemma", uid="uid-9", output=str(tmp_path))) == [("created", None)]


def test_a_jobset_without_a_record_needs_none(tmp_path: Path) -> None:
    assert record_cancel(store(tmp_path), jobset(output=str(tmp_path)), user="ann") == ()
    assert record_cancel(store(tmp_path), jobset(output=None), user="ann") == ()


def test_a_record_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    def silent(_path: str) -> Objects:
        raise Unreachable("the bucket does not answer")

    (found,) = record_cancel(RecordStore(state=tmp_path, objects_at=silent), jobset(), user="ann")
    assert (found.id, found.severity) == ("cancel-not-recorded", "warning")
    assert "does not answer" in found.message
