"""`xsft status RUN --receipt`: of a run on this machine, whole, and of a cluster's as a document."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import read_document
from tests.observations import FakeRuns, finished, local, observed, runs_read
from tests.verbs.test_runs_here import asked, folders  # noqa: F401 - a fixture
from xsft.base.errors import Unknown
from xsft.cluster.observation import Observation, Recorded
from xsft.records.document import read_record
from xsft.records.record import Receipt
from xsft.runs.receipt import SPENT
from xsft.verbs.receipt import print_receipt

SPENT_S: dict[str, float] = {**dict.fromkeys(SPENT, 0.0), "queued": 300.0, "compiling": 600.0, "training": 3000.0}
RECEIPT = Receipt(
    seconds=SPENT_S,
    steps=500,
    tokens_per_device=16_384_000.0,
    target_tokens=9,
    tflops_per_device=459.0,
    notes=("One.",),
)


def test_the_document_has_chips_tokens_and_rates_of_a_cluster_run(capsys: pytest.CaptureFixture[str]) -> None:
    runs = FakeRuns(runs_read((finished("gemma", at="2026-11-21T11:00:00Z"),)))
    assert print_receipt("gemma", runs=runs, read=lambda _: RECEIPT, json=True) == 0
    document = read_document("receipt", capsys.readouterr().out)
    assert (document["chips"], document["held_s"]) == (512, 3600.0)
    assert document["chip_hours"]["training"] == pytest.approx(512 * 3000 / 3600, abs=1e-3)
    assert document["tokens"] == 16_384_000 * 512
    assert document["tokens_per_chip_second"] == pytest.approx(16_384_000 / 3600)
    assert document["mfu"] == pytest.approx(0.5)


def test_the_text_names_every_state_that_took_time(capsys: pytest.CaptureFixture[str]) -> None:
    runs = FakeRuns(runs_read((finished("gemma", at="2026-11-21T11:00:00Z"),)))
    print_receipt("gemma", runs=runs, read=lambda _: RECEIPT, json=False)
    assert capsys.readouterr().out.splitlines() == [
        "gemma (succeeded): 500 steps, 8,388,608,000 tokens, 9 of them learnt from",
        "  queued            5m       42.67 chip-hours (not held)",
        "  compiling        10m       85.33 chip-hours",
        "  training         50m      426.67 chip-hours",
        "  held              1h      512.00 chip-hours",
        "4,551.1 tokens per chip-second held, MFU 50.0 %",
        "One.",
    ]


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (
            observed("a", jobset=None, progress=None),
            "The JobSet of a is gone with its log, and no record has its receipt",
        ),
        (local("a", record=Recorded(outcome="running", alive=True)), "a is still running"),
        (local("a", record=Recorded(outcome="failed")), "a ended before its receipt was written"),
    ],
    ids=["JobSet gone", "running here", "killed here"],
)
def test_receipt_says_why_there_is_none(seen: Observation, words: str) -> None:
    with pytest.raises(Unknown, match=words):
        print_receipt("a", runs=FakeRuns(runs_read((seen,))), read=lambda _: None, json=False)


def test_a_local_run_has_its_receipt_in_its_record(
    folders: tuple[str, str],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = read_record((Path(folders[0]) / "xsft" / "run.json").read_bytes())
    assert record.last.receipt is not None
    status, out, _ = asked(capsys, "receipt", folders[0], "--json")
    document = read_document("receipt", out)
    assert status == 0
    assert (document["steps"], document["chips"], document["chip_hours"]) == (40, None, None)
    assert document["tokens"] == 40 * round(0.217 * 1181.694)
    assert document["held_s"] == pytest.approx(sum(document["seconds"].values()), abs=0.2)
