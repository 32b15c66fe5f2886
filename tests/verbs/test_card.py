"""`xsft status RUN --receipt`: of a run on this machine, whole, and of a cluster's as a document."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.documents import read_document
from tests.observations import FakeRuns, finished, local, observed, queued, runs_read
from tests.verbs.test_runs_here import asked, folders  # noqa: F401 - a fixture
from xsft.base.errors import Unknown
from xsft.cluster.observation import Observation, Recorded
from xsft.records.document import read_record
from xsft.records.record import Receipt
from xsft.runs.receipt import SPENT
from xsft.verbs.card import card_lines, links_of, print_receipt, receipt_of
from xsft.verbs.status_table import CardAttempt, CardCheckpoint, RunCard

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
    ("observation", "words"),
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
def test_receipt_says_why_there_is_none(observation: Observation, words: str) -> None:
    with pytest.raises(Unknown, match=words):
        print_receipt("a", runs=FakeRuns(runs_read((observation,))), read=lambda _: None, json=False)


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


def card_of(observation: Observation, *, log: tuple[str, ...] = ()) -> list[str]:
    """Return the card of a run of which everything could be read."""
    (folded,) = FakeRuns(runs_read((observation,))).look().rows
    attempts = tuple(
        CardAttempt(number=number, jobset=None, started_at="", finished_at=None, outcome=outcome)
        for number, outcome in ((1, "failed"), (2, "running"))
    )
    checkpoints = (
        CardCheckpoint(step=100, complete=False, bytes=0),
        CardCheckpoint(step=50, complete=True, bytes=3 << 30),
    )
    links = tuple(links_of(folded.row, log))
    receipt = receipt_of(folded.row, RECEIPT)
    card = RunCard(receipt=receipt, cost=1234.5, attempts=attempts, checkpoints=checkpoints, links=links)
    return list(card_lines(folded.row, card, losses={1: 3.0, 2: 2.0}, unread=("log: no answer",)))


def test_a_card_shows_time_cost_attempts_checkpoints_links_losses_and_the_next_commands() -> None:
    observation = observed("gemma")
    observation = replace(observation, cluster="my-project/us-east5-b/my-cluster")
    lines = card_of(observation, log=("wandb: View run tame-fog-1 at: https://wandb.ai/me/sft/runs/1",))
    assert lines[0].startswith("gemma is training, read ")
    card = {line[:15].strip(): line[15:] for line in lines[1:]}
    assert card["step"].startswith("120/1000, loss 2.346")
    assert card["cost"].startswith("1,234.50 ")
    assert card["attempts"] == "1 failed, 2 running"
    assert card["checkpoints"] == "100 (incomplete), 50 (3.22 GB); 1 MB is 1,000,000 bytes"
    assert card["tensorboard"] == "tensorboard --logdir gs://my-bucket/runs/gemma/tensorboard"
    assert card["tracker"] == "https://wandb.ai/me/sft/runs/1"
    assert card["workloads"].endswith("?project=my-project&pageState=((gke%2Fus-east5-b%2Fmy-cluster))")
    assert "pod_name%3A%22gemma-%22" in card["logs"]
    assert card["not read"] == "log: no answer"
    assert card["time"] == "queued 5m (not held), compiling 10m (85.33 chip-hours), training 50m (426.67 chip-hours)"
    assert card["held"].startswith("1h, 512.00 chip-hours, ")
    assert lines[-1] == "next: xsft logs -f gemma, or xsft cancel gemma"
    assert sum(-(-len(line) // 100) for line in "\n".join(lines).splitlines()) <= 30


def test_a_card_of_a_queued_run_says_that_it_holds_no_chips() -> None:
    lines = card_of(queued("next"))
    assert any("; a queued run holds none" in line for line in lines)
    assert lines[-1] == "next: xsft why next, or xsft logs next"


def test_status_of_one_run_reads_its_card(
    folders: tuple[str, str],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = Path(folders[0]) / "xsft" / "run.json"
    before = record.read_bytes()
    status, out, _ = asked(capsys, "status", folders[0], "--json")
    document = read_document("status", out)
    assert status == 0
    assert document["receipt"]["steps"] == 40
    assert [attempt["outcome"] for attempt in document["attempts"]] == ["completed"]
    assert record.read_bytes() == before
    _, text, _ = asked(capsys, "status", folders[0])
    assert "loss" in text
    assert "\nnext: xsft checkpoint export " in text
