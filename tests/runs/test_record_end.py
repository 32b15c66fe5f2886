"""The record of a run that has ended."""

from __future__ import annotations

from pathlib import Path

from tests.records.test_record_files import CREATED, begun, intent, store
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
    assert [one.outcome for one in records.read_run(output, "a-run")] == ["failed", "submitting"]
