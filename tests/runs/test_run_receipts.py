from __future__ import annotations

from pathlib import Path

import pytest

from tests.observations import NOW, finished, jobset, observed
from tests.records.test_record_files import CREATED, begun, intent, store
from tests.replacing import replace
from tests.verbs.test_card import RECEIPT
from xsft.cluster.observation import Observation, Status
from xsft.machine.objects import LocalObjects
from xsft.records.record import Receipt
from xsft.runs.lookup import FoldedRun
from xsft.runs.read_all import Runs
from xsft.runs.rows import row_of
from xsft.runs.run_receipts import read_receipt


def test_a_receipt_counts_recorded_submissions_whose_jobsets_are_gone(tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    changed_created = replace(CREATED, uid="u-2", receipt=RECEIPT)
    for number, attempt_record in ((1, CREATED), (2, changed_created), (3, replace(changed_created, uid="u-3"))):
        records.finish(
            begun(records, intent(output, number=number, resumed_from=None if number < 3 else 400)), attempt_record
        )
    observation = observed("a-run", jobset=None, output=output)
    status = Status(state="succeeded")
    hit = FoldedRun(row=row_of(observation, status, now=NOW), seen=observation, status=status, attempts=(observation,))
    receipt = read_receipt(Runs(sources=(), store=records), hit)
    assert receipt is not None
    assert (receipt.steps, receipt.seconds["training"], receipt.seconds["lost"]) == (900, 5400.0, 600.0)
    assert receipt.notes == ("One.", "Nothing is left of 1 earlier submission: their time is not counted.")
    assert read_receipt(Runs(sources=(), store=store(tmp_path / "no", LocalObjects())), unrecorded(hit)) is None


def test_a_receipt_counts_an_unrecorded_submission_by_its_jobset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two attempts of the record are gone, one is recorded with its receipt, one has a JobSet alone."""
    monkeypatch.setattr("xsft.runs.run_receipts.RunLogs.printed", lambda *_: iter(()))
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    for number in (1, 2):
        records.finish(begun(records, intent(output, number=number)), replace(CREATED, uid=f"gone-{number}"))
    recorded = replace(CREATED, uid="u-3", receipt=RECEIPT)
    records.finish(begun(records, intent(output, number=3, resumed_from=None)), recorded)
    observation = replace(finished("a-run", at="2026-11-21T11:00:00Z", uid="u-4"), output=output)
    status = Status(state="succeeded")
    hit = FoldedRun(row=row_of(observation, status, now=NOW), seen=observation, status=status, attempts=(observation,))
    receipt = read_receipt(Runs(sources=(), store=records), hit)
    assert receipt is not None
    assert receipt.steps == RECEIPT.steps
    assert receipt.seconds["starting"] == 3600.0
    assert receipt.seconds["training"] == RECEIPT.seconds["training"]
    assert receipt.notes[-1] == "Nothing is left of 2 earlier submissions: their time is not counted."


def test_the_receipt_of_a_jobset_that_has_ended_is_kept_in_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not of one that still runs, or that made no step."""
    read: list[int] = []
    changed_receipt = RECEIPT

    def receipt_of(_seen: Observation, _lines: object, *, first: int) -> Receipt:
        read.append(first)
        return changed_receipt

    monkeypatch.setattr("xsft.runs.run_receipts.cluster_receipt", receipt_of)
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    attempts = [(1, None), (2, 400)]
    for number, step in attempts:
        attempt = intent(output, number=number, resumed_from=step)
        records.finish(begun(records, attempt), replace(CREATED, uid=f"u-{number}"))
    gone = replace(finished("a-run", at="2026-11-21T11:00:00Z", uid="u-1"), output=output)
    live = replace(observed("a-run", jobset=jobset("a-run", uid="u-2")), output=output)
    status = Status(state="training")
    hit = FoldedRun(row=row_of(live, status, now=NOW), seen=live, status=status, attempts=(gone, live))
    runs = Runs(sources=(), store=records)
    assert read_receipt(runs, replace(hit, attempts=())) is None
    changed_receipt = replace(RECEIPT, steps=0)
    assert read_receipt(runs, hit) is not None
    assert [record.last.receipt for record in records.read_run(output, "a-run")] == [None, None]
    changed_receipt = RECEIPT
    assert read_receipt(runs, hit) is not None
    assert [record.last.receipt for record in records.read_run(output, "a-run")] == [RECEIPT, None]
    assert read == [0, 400, 0, 400]


def unrecorded(hit: FoldedRun) -> FoldedRun:
    return replace(hit, seen=replace(hit.seen, output=None))
