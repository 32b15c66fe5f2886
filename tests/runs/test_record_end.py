"""The record of a run that has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.records.test_record_files import CREATED, begun, intent, store
from tests.replacing import replace
from xsft.machine.objects import LocalObjects
from xsft.records.record import Receipt
from xsft.runs.record_end import record_job_end, record_receipt

RECEIPT = Receipt(seconds={"training": 10.0}, steps=4, notes=("One.",))


def test_a_receipt_is_added_to_the_record_and_keeps_its_outcome(tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    records.finish(begun(records, intent(output)), CREATED)
    for _twice in range(2):
        record_receipt(records, output=output, run_name="a-run", receipt=RECEIPT, uid="u-1")
    (read,) = records.read_run(output, "a-run")
    assert (read.outcome, read.last.receipt, read.last.created_by) == ("created", RECEIPT, "a" * 16)


def test_the_receipt_of_another_jobset_is_ignored(tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    records.finish(begun(records, intent(output)), CREATED)
    record_receipt(records, output=output, run_name="a-run", receipt=RECEIPT, uid="u-2")
    record_receipt(records, output=output, run_name="unknown", receipt=RECEIPT, uid="u-1")
    (read,) = records.read_run(output, "a-run")
    assert read.last.receipt is None


def test_the_end_of_a_job_belongs_to_the_attempt_with_its_uid(tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    records.finish(begun(records, intent(output)), CREATED)
    begun(records, intent(output, number=2))
    record_job_end(records, output=output, run_name="a-run", outcome="failed", reason="no disk", uid="u-1")
    assert [record.outcome for record in records.read_run(output, "a-run")] == ["failed", "submitting"]


@pytest.mark.parametrize(
    ("uid", "ends"),
    [("u-1", ["failed", "created"]), ("u-2", ["created", "failed"]), ("u-3", ["created", "created"])],
    ids=["first", "last", "unknown"],
)
def test_the_end_of_another_jobset_is_not_recorded(tmp_path: Path, uid: str, ends: list[str]) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    for number in (1, 2):
        records.finish(begun(records, intent(output, number=number)), replace(CREATED, uid=f"u-{number}"))
    assert record_job_end(records, output=output, run_name="a-run", outcome="failed", uid=uid) == ()
    assert [record.outcome for record in records.read_run(output, "a-run")] == ends


@pytest.mark.parametrize("uid", ["u-1", None])
def test_the_first_recorded_end_of_a_job_stays(tmp_path: Path, uid: str | None) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    records.finish(begun(records, intent(output)), CREATED)
    record_job_end(records, output=output, run_name="a-run", outcome="completed", uid=uid)
    files = sorted(Path(output).rglob("*"))
    record_job_end(records, output=output, run_name="a-run", outcome="failed", uid=uid)
    assert [record.outcome for record in records.read_run(output, "a-run")] == ["completed"]
    assert sorted(Path(output).rglob("*")) == files


def test_the_end_of_a_job_whose_submitter_died_is_recorded_with_its_last_attempt(tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    begun(records, intent(output))
    record_job_end(records, output=output, run_name="a-run", outcome="completed", uid="u-1")
    assert [record.outcome for record in records.read_run(output, "a-run")] == ["completed"]


def test_the_end_of_a_job_whose_jobset_is_unknown_belongs_to_its_last_attempt(tmp_path: Path) -> None:
    """The first attempt's submitter died before it read a UID."""
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    begun(records, intent(output))
    records.finish(begun(records, intent(output, number=2)), replace(CREATED, uid="u-2"))
    record_job_end(records, output=output, run_name="a-run", outcome="completed")
    assert [record.outcome for record in records.read_run(output, "a-run")] == ["submitting", "completed"]
