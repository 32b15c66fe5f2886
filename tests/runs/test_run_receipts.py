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
    told = replace(CREATED, uid="u-2", receipt=RECEIPT)
    for number, said in ((1, CREATED), (2, told), (3, replace(told, uid="u-3"))):
        records.finish(begun(records, intent(output, number=number, resumed_from=None if number < 3 else 400)), said)
    seen = observed("a-run", jobset=None, output=output)
    status = Status(state="succeeded")
    hit = FoldedRun(row=row_of(seen, status, now=NOW), seen=seen, status=status, attempts=(seen,))
    found = read_receipt(Runs(sources=(), store=records), hit)
    assert found is not None
    assert (found.steps, found.seconds["training"], found.seconds["lost"]) == (900, 5400.0, 600.0)
    assert found.notes == ("One.", "Nothing is left of 1 earlier submission: their time is not counted.")
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
    seen = replace(finished("a-run", at="2026-11-21T11:00:00Z", uid="u-4"), output=output)
    status = Status(state="succeeded")
    hit = FoldedRun(row=row_of(seen, status, now=NOW), seen=seen, status=status, attempts=(seen,))
    found = read_receipt(Runs(sources=(), store=records), hit)
    assert found is not None
    assert found.steps == RECEIPT.steps
    assert found.seconds["starting"] == 3600.0
    assert found.seconds["training"] == RECEIPT.seconds["training"]
    assert found.notes[-1] == "Nothing is left of 2 earlier submissions: their time is not counted."


def test_the_receipt_of_a_jobset_that_has_ended_is_kept_in_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not of one that still runs, or that made no step."""
    read: list[int] = []
    told = RECEIPT

    def receipt_of(_seen: Observation, _lines: object, *, first: int) -> Receipt:
        read.append(first)
        return told

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
    told = replace(RECEIPT, steps=0)
    assert read_receipt(runs, hit) is not None
    assert [one.last.receipt for one in records.read_run(output, "a-run")] == [None, None]
    told = RECEIPT
    assert read_receipt(runs, hit) is not None
    assert [one.last.receipt for one in records.read_run(output, "a-run")] == [RECEIPT, None]
    assert read == [0, 400, 0, 400]


def unrecorded(hit: FoldedRun) -> FoldedRun:
    return replace(hit, seen=replace(hit.seen, output=None))
