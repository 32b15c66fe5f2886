from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.test_receipt import RECEIPT
from tests.effects.records.test_records import CREATED, begun, intent, store
from tests.observations import NOW, finished, observed
from tests.replacing import replace
from xsft.actions.runs.receipts import read_receipt
from xsft.effects.records.objects import LocalObjects
from xsft.effects.runs.runs import Runs
from xsft.states.folding import FoldedRun
from xsft.states.model import Status
from xsft.states.rows import row_of


def test_submissions_whose_jobsets_are_gone_are_in_the_record(tmp_path: Path) -> None:
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


def test_submissions_without_a_record_are_read_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attempts of the record are gone, one is recorded with its receipt, one has a JobSet alone."""
    monkeypatch.setattr("xsft.actions.runs.receipts._logged_lines", lambda *_: iter(()))
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


def unrecorded(hit: FoldedRun) -> FoldedRun:
    return replace(hit, seen=replace(hit.seen, output=None))
