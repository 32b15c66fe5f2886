"""Answers of `why` about a submission of which only the record is left."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.observations import NOW, judged, local, observed
from tests.replacing import replace
from xsft.base.errors import Unreachable
from xsft.cluster.evidence import Log
from xsft.cluster.observation import Observation, Recorded, Status
from xsft.machine.objects import LocalObjects
from xsft.records.record import Attempt, AttemptFacts, Record
from xsft.records.record_files import RecordStore
from xsft.runs.failures import diagnose
from xsft.runs.lastknown import remember
from xsft.runs.lookup import FoldedRun, fold
from xsft.runs.read_all import Runs
from xsft.runs.read_evidence import evidence_of, forgotten_attempt


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    store = RecordStore(state=tmp_path / "state", objects_at=lambda _: LocalObjects(), now=lambda: NOW)
    return Runs(sources=(), store=store)


def hit(observation: Observation) -> FoldedRun:
    (folded,) = fold([observation], classify=judged, now=NOW)
    return folded


def submitted(runs: Runs, output: Path, *, number: int, uid: str) -> None:
    jobset = "gemma" if number == 1 else f"gemma-{number}"
    attempt = Attempt(
        number=number, outcome="submitting", submitter="a" * 16, jobset=jobset, namespace="default", started_at=NOW,
        resolved={"tpu": "v6e-256", "num_slices": 2},
    )  # fmt: skip
    record = Record(run_name="gemma", steps=1000, target="xpk", output=str(output), attempts=(attempt,))
    runs.store.finish(runs.store.begin(record), AttemptFacts(outcome="created", at=NOW, uid=uid, submitter="a" * 16))


def test_a_submission_that_is_gone_is_known_by_its_record_and_by_earlier_looks(runs: Runs, tmp_path: Path) -> None:
    submitted(runs, tmp_path, number=1, uid="uid-gemma")
    submitted(runs, tmp_path, number=2, uid="u-2")
    before = observed("gemma")
    remember(runs.store.state, [(before, Status(state="failed", reason="oom-killed"))], now=NOW)
    assert before.jobset is not None
    newest = hit(observed("gemma", jobset=replace(before.jobset, name="gemma-2", uid="u-2", output=str(tmp_path))))
    ask = partial(forgotten_attempt, runs)
    first = ask(newest, 1)
    assert first is not None
    assert first.record is not None
    assert (first.record.outcome, first.record.jobset, first.record.number) == ("created", "gemma", 1)
    assert (first.record.tpu, first.record.num_slices) == ("v6e-256", 2)
    assert first.last_known == Status(state="failed", reason="oom-killed")
    assert first.progress is not None
    assert first.progress.step == 120
    newest_seen = newest.seen
    assert (first.target, first.cluster, first.output) == (newest_seen.target, newest_seen.cluster, newest_seen.output)
    assert ask(newest, 3) is None


def test_forgotten_attempt_is_none_if_the_record_cannot_be_read(tmp_path: Path) -> None:
    def nobody(_: str) -> LocalObjects:
        raise Unreachable("no login", fix="log in")

    runs = Runs(sources=(), store=RecordStore(state=tmp_path, objects_at=nobody))
    assert forgotten_attempt(runs, hit(observed("gemma")), 1) is None


@pytest.mark.parametrize(("number", "line"), [(None, "of attempt 2"), (1, "of attempt 1"), (2, "of attempt 2")])
def test_the_log_of_a_local_run_is_that_of_the_requested_attempt(tmp_path: Path, number: int | None, line: str) -> None:
    for attempt_number in (1, 2):
        (tmp_path / f"{attempt_number}.log").write_text(f"of attempt {attempt_number}\n")

    class Store(RecordStore):
        def read_run(self, output: str, run_name: str) -> tuple[Record, ...]:
            attempts = (Attempt(number=n, log=str(tmp_path / f"{n}.log")) for n in (1, 2))
            return tuple(Record(run_name=run_name, attempts=(attempt_number,)) for attempt_number in attempts)

    runs = Runs(sources=(), store=Store(state=tmp_path, objects_at=lambda _: LocalObjects()))
    local_run = local("tiny", output=str(tmp_path), record=Recorded(outcome="failed", number=number))
    evidence = evidence_of(runs, hit(local_run))
    assert local_run.progress is not None
    no_place = {"replicated_job": "", "slice_index": 0, "host": 0, "pod": ""}
    assert evidence.logs == (
        Log(**no_place, lines=(line,), said=diagnose((line,)), said_at=local_run.progress.said_at),
    )
