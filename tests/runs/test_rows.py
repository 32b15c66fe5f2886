from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from msgspec.structs import asdict

from tests.kubeobjects import kueue_workload
from tests.observations import EARLIER, NOW, finished, jobset, judged, local, observed, queued, said
from tests.replacing import replace
from xsft.cluster.objects import Condition
from xsft.cluster.observation import Observation, Recorded, RunObject, Status, Unread
from xsft.runs.lookup import FoldedRun, fold
from xsft.runs.rows import aged, row_of


def rows(*observations: Observation) -> tuple[FoldedRun, ...]:
    return fold(observations, classify=judged, now=NOW)


def names(folded_runs: tuple[FoldedRun, ...]) -> list[str]:
    return [folded_run.row.run_name for folded_run in folded_runs]


def test_a_row_has_step_speed_and_age() -> None:
    (folded_run,) = rows(observed())
    row = folded_run.row
    assert (row.state, row.step, row.steps, row.loss) == ("training", 120, 1000, 2.3456)
    assert row.eta_s == pytest.approx(880 * 4.546)
    assert (row.age_s, row.evidence_age_s) == (7200, 4)
    assert row.evidence == ("jobset", "log")
    assert row.progress.read
    assert row.progress.saved_step == 100
    assert row.chips == 512


def test_every_column_of_a_live_run_has_its_source() -> None:
    jobset_object = jobset(
        "gemma-evaluate-2", run_name="gemma-evaluate", work="evaluate", restarts=1, queue="old-queue"
    )
    workload = kueue_workload("w", queue_name="new-queue")
    observation = observed(
        "gemma-evaluate", jobset=jobset_object, workload=workload, position=4, read_at="2026-11-21T11:58:56Z"
    )
    row = row_of(observation, Status(state="training", reason="resumed", evidence=("jobset",)), now=NOW, attempts=2)
    assert asdict(row) == {
        "target": "xpk",
        "run_name": "gemma-evaluate",
        "pipeline": "gemma",
        "stage": "evaluate",
        "jobset": "gemma-evaluate-2",
        "namespace": "default",
        "cluster": "my-project/us-east5-b/my-cluster",
        "mode": "mcjax",
        "tpu": "v6e-256",
        "num_slices": 2,
        "state": "training",
        "reason": "resumed",
        "step": 120,
        "steps": 1000,
        "loss": 2.3456,
        "step_seconds": 4.546,
        "mfu": pytest.approx(0.455, abs=0.0005),
        "tokens_per_second": 7207.0,
        "eta_s": pytest.approx(880 * 4.546),
        "restarts": 1,
        "max_restarts": 3,
        "created_at": "2026-11-21T10:00:00Z",
        "ended_at": None,
        "age_s": 7260,
        "queue": "new-queue",
        "queue_position": 4,
        "evidence": ("jobset",),
        "observed_at": EARLIER,
        "evidence_age_s": 64,
        "progress": row.progress,
        "unread": (),
        "attempts": 2,
        "output": "gs://my-bucket/runs",
        "tensorboard": "gs://my-bucket/runs/gemma-evaluate/tensorboard",
        "spec_digest": "ab" * 32,
        "uid": "uid-gemma-evaluate-2",
    }


def test_a_run_with_only_a_record_takes_its_columns_from_the_record() -> None:
    record = Recorded(outcome="failed", jobset="gemma-export", uid="u1", work="export", tpu="v5p-8", num_slices=4)
    observation = observed("gemma-export", jobset=None, progress=None, record=record, output="gs://my-bucket/other/")
    row = row_of(observation, Status(state="failed"), now=NOW)
    assert (row.jobset, row.uid, row.namespace, row.queue) == ("gemma-export", "u1", None, None)
    assert (row.stage, row.pipeline, row.output) == ("export", "gemma", "gs://my-bucket/other/")
    assert (row.tensorboard, row.created_at, row.age_s, row.spec_digest) == (None, None, None, None)
    training = row_of(
        replace(observation, steps=10, record=replace(record, work=None)), Status(state="failed"), now=NOW
    )
    assert (training.stage, training.pipeline) == ("train", "gemma-export")
    assert training.tensorboard == "gs://my-bucket/other/gemma-export/tensorboard"


def test_a_jobset_that_xsft_did_not_create_has_no_stage() -> None:
    row = row_of(observed(jobset=jobset(ours=False), workload=None), Status(state="training"), now=NOW)
    assert (row.stage, row.pipeline, row.queue, row.queue_position) == (None, None, "multislice-queue", None)
    gone = row_of(observed(jobset=None, was=jobset(ours=False)), Status(state="gone"), now=NOW)
    assert (gone.stage, gone.pipeline, gone.jobset, gone.uid) == (None, None, None, None)


def test_a_run_ended_at_the_terminal_condition_of_its_jobset() -> None:
    def ended(type: str, *, status: str = "True", at: str | None = "2026-11-21T11:00:00Z") -> str | None:
        jobset_object = jobset(conditions=(Condition(type=type, status=status, reason="r", at=at),))
        record = Recorded(outcome="completed", finished_at="2026-11-21T11:30:00Z")
        return row_of(observed(jobset=jobset_object, record=record), Status(state="succeeded"), now=NOW).ended_at

    assert ended("Completed") == ended("Failed") == "2026-11-21T11:00:00Z"
    assert ended("Suspended") == ended("Failed", status="False") == ended("Failed", at=None) == "2026-11-21T11:30:00Z"


def test_only_a_running_run_with_steps_and_speed_has_an_eta() -> None:
    assert row_of(observed(), Status(state="succeeded"), now=NOW).eta_s is None
    for lacking in ({"step": None}, {"step_seconds": None}):
        assert row_of(observed(progress=said(**lacking)), Status(state="training"), now=NOW).eta_s is None
    beyond = observed(progress=said(2000))
    assert row_of(beyond, Status(state="training"), now=NOW).eta_s == 0


@pytest.mark.parametrize("pace", [float("inf"), float("nan"), 1e308])
def test_an_invalid_step_time_gives_no_eta(pace: float) -> None:
    (folded_run,) = rows(observed(steps=1000, progress=said(1, step_seconds=pace)))
    assert folded_run.row.eta_s is None


def test_mfu_is_the_share_of_the_chips_peak() -> None:
    """417.4 TFLOP/s per v6e chip is 45.5 %: source: tpu-recipes training/trillium/Llama3.1-8B-MaxText/v6e-256."""
    (folded_run,) = rows(observed())
    assert folded_run.row.mfu == pytest.approx(0.455, abs=0.0005)


def test_a_tpu7x_chip_is_two_devices() -> None:
    observation = observed(jobset=jobset(tpu="tpu7x-128"), progress=said(tflops_per_device=2307 / 2))
    assert row_of(observation, Status(state="training"), now=NOW).mfu == pytest.approx(1.0)


@pytest.mark.parametrize("tpu", [None, "h100-8", "tpu7-8"])
def test_mfu_is_none_without_the_peak_of_the_chip(tpu: str | None) -> None:
    assert row_of(observed(jobset=jobset(tpu=tpu)), Status(state="training"), now=NOW).mfu is None


def test_a_row_gives_the_reason_for_an_unread_log() -> None:
    (folded_run,) = rows(observed(progress=None, unread=(Unread(what="log", why="deadline of 2 s"),)))
    assert not folded_run.row.progress.read
    assert folded_run.row.progress.why == "deadline of 2 s"
    assert folded_run.row.unread == ("log: deadline of 2 s",)
    assert folded_run.row.step is None


def test_all_times_have_one_form_whoever_wrote_them() -> None:
    """Kubernetes and xsft write a Z, records of older versions and other programs an offset."""
    old = Recorded(outcome="completed", started_at="2026-11-21T10:00:00+00:00", finished_at="2026-11-21T12:30:00+01:00")
    progress = replace(said(), said_at="2026-11-21T10:05:00+00:00")
    row = row_of(
        local("tiny", record=old, progress=progress, observed_at="2026-11-21T12:00:00+00:00"),
        Status(state="succeeded"),
        now=NOW,
    )
    assert (row.created_at, row.ended_at, row.observed_at, row.progress.said_at) == (
        "2026-11-21T10:00:00Z", "2026-11-21T11:30:00Z", "2026-11-21T12:00:00Z", "2026-11-21T10:05:00Z",
    )  # fmt: skip


def test_a_run_whose_jobset_is_gone_keeps_its_columns() -> None:
    record = Recorded(outcome="cancelled", finished_at="2026-11-21T11:00:00Z")
    observation = observed(jobset=None, was=jobset(restarts=1), record=record)
    row = row_of(observation, Status(state="cancelled"), now=NOW)
    assert (row.tpu, row.num_slices, row.mode, row.steps, row.step) == ("v6e-256", 2, "mcjax", 1000, 120)
    assert (row.restarts, row.max_restarts, row.output, row.age_s) == (1, 3, "gs://my-bucket/runs", 7200)
    assert (row.namespace, row.queue, row.ended_at) == (None, None, "2026-11-21T11:00:00Z")
    assert row.mfu == pytest.approx(0.455, abs=0.0005)


def test_a_run_never_observed_has_the_columns_of_its_record() -> None:
    record = Recorded(outcome="cancelled", tpu="v5p-8", num_slices=4)
    row = row_of(observed(jobset=None, record=record), Status(state="cancelled"), now=NOW)
    assert (row.tpu, row.num_slices, row.restarts) == ("v5p-8", 4, None)


def test_a_server_whose_clock_is_ahead_makes_no_negative_age() -> None:
    (folded_run,) = rows(observed(observed_at="2026-11-21T12:00:30Z", jobset=jobset(created_at="2026-11-21T12:00:20Z")))
    assert (folded_run.row.age_s, folded_run.row.evidence_age_s) == (10, 0)


def test_a_kept_row_changes_only_its_ages() -> None:
    (folded_run,) = rows(observed())
    later = aged(folded_run.row, seconds=600)
    assert (later.age_s, later.evidence_age_s) == (7800, 604)
    assert replace(later, age_s=folded_run.row.age_s, evidence_age_s=folded_run.row.evidence_age_s) == folded_run.row


texts = st.one_of(st.none(), st.text(max_size=8), st.just(NOW), st.just("0001-01-01T00:00:00+14:00"))
numbers = st.one_of(st.none(), st.floats(), st.integers(min_value=-5, max_value=10**9))


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """Draw observations of all shapes, sensible or not."""
    base: Any = draw(st.sampled_from([observed(), local(), queued("q"), finished("f", at=NOW)]))
    progress = said(
        draw(st.integers(0, 10**9)), loss=draw(numbers), step_seconds=draw(numbers), tflops_per_device=draw(numbers)
    )
    return replace(
        base,
        observed_at=draw(texts) or "",
        steps=draw(st.one_of(st.none(), st.integers(0, 10**9))),
        progress=draw(st.one_of(st.none(), st.just(progress))),
        jobset=draw(st.one_of(st.none(), st.just(jobset(tpu=draw(texts), created_at=draw(texts) or "")))),
        record=draw(st.one_of(st.none(), st.just(Recorded(outcome="running", started_at=draw(texts))))),
        cluster=draw(texts),
        output=draw(st.sampled_from([None, "/a", "/b"])),
        was=draw(st.one_of(st.none(), st.just(jobset(tpu=draw(texts))))),
        unread=(Unread(what="log", why=draw(st.text(max_size=9))),),
    )


RESHUFFLES = {"data_on_restart": "reshuffle"}


@pytest.mark.parametrize(
    ("run_object", "order"),
    [
        (jobset(restarts=1, **RESHUFFLES), "reshuffled"),
        (jobset("gemma-2", run_name="gemma", **RESHUFFLES), "reshuffled"),
        (jobset(**RESHUFFLES), "repeated"),  # Kueue evicted it, or a pod was replaced: nobody counts that
        (jobset(restarts=1, data_on_restart="repeat"), "repeated"),
        (jobset(restarts=1), "repeated"),  # made by an xsft that knew nothing else
        (jobset(restarts=1, ours=False), None),
    ],
    ids=[
        "restarted",
        "second attempt",
        "not restarted by JobSet",
        "data repeated on restart",
        "made by an older xsft",
        "not created by xsft",
    ],
)
def test_a_resumed_run_has_the_order_of_its_data(run_object: RunObject, order: str | None) -> None:
    (resumed,) = rows(observed(jobset=run_object, progress=said(resumed_from=100)))
    assert (resumed.row.progress.resumed_from, resumed.row.progress.resumed_order) == (100, order)
    (first,) = rows(observed(jobset=run_object, progress=said()))
    assert first.row.progress.resumed_order is None


def test_a_resumed_local_run_reports_the_order_of_its_data() -> None:
    (resumed,) = rows(local(progress=said(resumed_from=10, resumed_order="reshuffled")))
    assert resumed.row.progress.resumed_order == "reshuffled"
