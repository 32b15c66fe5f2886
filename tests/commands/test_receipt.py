"""`xsft receipt`: of a run on this machine, whole, and of a cluster's as a document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.test_runs_here import asked, folders  # noqa: F401 - a fixture
from tests.documents import read_document
from tests.effects.records.test_records import CREATED, begun, intent, store
from tests.observations import NOW, Read, finished, judged, observed
from tests.replacing import replace
from xsft.actions.runs.receipts import read_receipt
from xsft.commands.receipt import print_receipt
from xsft.effects.records.objects import LocalObjects
from xsft.effects.runs.runs import Runs
from xsft.errors import Unknown
from xsft.records.document import read_record
from xsft.records.model import Receipt
from xsft.run_query import RunQuery
from xsft.states.folding import FoldedRun, RowFilter
from xsft.states.model import Observation, Status
from xsft.states.rows import row_of
from xsft.trainers.receipt import SPENT

SPENT_S: dict[str, float] = {**dict.fromkeys(SPENT, 0.0), "queued": 300.0, "compiling": 600.0, "training": 3000.0}
RECEIPT = Receipt(
    seconds=SPENT_S,
    steps=500,
    tokens_per_device=16_384_000.0,
    target_tokens=9,
    tflops_per_device=459.0,
    notes=("One.",),
)


def query(seen: Observation) -> RunQuery:
    everything = RowFilter(everything=True)
    return RunQuery(read=lambda: Read((seen,)), classify=judged, wanted=everything, now=lambda: NOW)


def test_chips_tokens_and_rates_of_a_cluster_run(capsys: pytest.CaptureFixture[str]) -> None:
    run = query(finished("gemma", at="2026-11-21T11:00:00Z"))
    assert print_receipt("gemma", query=run, read=lambda _: RECEIPT, json=True) == 0
    document = json.loads(capsys.readouterr().out)
    read_document("receipt", document)
    assert (document["chips"], document["held_s"]) == (512, 3600.0)
    assert document["chip_hours"]["training"] == pytest.approx(512 * 3000 / 3600, abs=1e-3)
    assert document["tokens"] == 16_384_000 * 512
    assert document["tokens_per_chip_second"] == pytest.approx(16_384_000 / 3600)
    assert document["mfu"] == pytest.approx(0.5)


def test_text_names_every_state_that_took_time(capsys: pytest.CaptureFixture[str]) -> None:
    run = query(finished("gemma", at="2026-11-21T11:00:00Z"))
    print_receipt("gemma", query=run, read=lambda _: RECEIPT, json=False)
    assert capsys.readouterr().out.splitlines() == [
        "gemma (succeeded): 500 steps, 8,388,608,000 tokens, 9 of them learnt from",
        "  queued            5m       42.67 chip-hours (not held)",
        "  compiling        10m       85.33 chip-hours",
        "  training         50m      426.67 chip-hours",
        "  held              1h      512.00 chip-hours",
        "4,551.1 tokens per chip-second held, MFU 50.0 %",
        "One.",
    ]


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


def test_nothing_left_is_exit_8() -> None:
    with pytest.raises(Unknown, match="The log and the record of gemma are gone"):
        print_receipt("gemma", query=query(observed()), read=lambda _: None, json=False)


def test_a_local_run_has_its_receipt_in_its_record(
    folders: tuple[str, str],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = read_record((Path(folders[0]) / "xsft" / "run.json").read_bytes())
    assert record.last.receipt is not None
    status, out, _ = asked(capsys, "receipt", folders[0], "--json")
    document = json.loads(out)
    read_document("receipt", document)
    assert status == 0
    assert (document["steps"], document["chips"], document["chip_hours"]) == (40, None, None)
    assert document["tokens"] == 40 * round(0.217 * 1181.694)
    assert document["held_s"] == pytest.approx(sum(document["seconds"].values()), abs=0.2)
