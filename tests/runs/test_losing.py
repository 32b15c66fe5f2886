from __future__ import annotations

import re
from typing import Any

import pytest

from tests.observations import EARLIER, NOW, jobset, observed, said
from tests.runs.seen import pod
from xsft.base.state_names import State
from xsft.cluster.observation import Observation, Status, Unread
from xsft.runs.losing import Loss, SavedSteps, loss_of, loss_text, may_lose
from xsft.runs.rows import Row, row_of
from xsft.trainer.progress import Progress

NONE = SavedSteps()
SILENT = SavedSteps(why="timeout")
STARTED = Progress(source="log", read_at=NOW, phase="compiling")
WORDLESS = Progress(source="log", read_at=NOW)
UP_AGAIN = "2026-11-21T11:30:00Z"


def pending(created_at: str = "2026-11-21T10:00:05Z", **changed: Any) -> Observation:
    """A run with a pod that has not started."""
    waiting = pod(phase="Pending", jobset="gemma", created_at=created_at, conditions=(), containers=(), node=False)
    return observed(progress=None, pods=(waiting,), **changed)


def row(observation: Observation, state: State = "training", reason: str = "") -> Row:
    return row_of(observation, Status(state=state, reason=reason), now=NOW)


def loss(observation: Observation, state: State = "training", saved: SavedSteps = NONE, reason: str = "") -> Loss:
    return loss_of(observation, row(observation, state, reason), saved)


@pytest.mark.parametrize(
    ("observation", "state", "saved", "steps", "words"),
    [
        (observed(), "training", NONE, 20, "20 steps since the checkpoint of step 100 would be lost .it is at step 12"),
        (observed(), "training", SavedSteps(step=110), 10, "10 steps since the checkpoint of step 110"),
        (observed(), "training", SILENT, 20, "20 steps since the checkpoint of step 100"),
        (observed(progress=said(100)), "training", NONE, 0, "step 100 is its last step: nothing would be lost"),
        (observed(progress=said(90)), "training", NONE, 0, "nothing would be lost"),
        (observed(progress=said(7, saved_step=None)), "training", NONE, 7, "no checkpoint: all of its 7 steps"),
        (observed(progress=said(7, saved_step=None)), "training", SILENT, None, "unknown: .* not read .timeout"),
        (observed(progress=said(7, saved_step=None, resumed_from=5)), "training", SILENT, 2, "since .* step 5 would"),
        (observed(progress=said(1900, saved_step=None)), "training", SavedSteps(step=1000), 900, "since .* step 1000"),
        (
            observed(progress=said(199, source="metrics")),
            "training",
            SavedSteps(step=100),
            None,
            "step 199. may be older",
        ),
        (
            observed(progress=said(40, source="record")),
            "training",
            SavedSteps(step=40),
            None,
            "record .* may be older",
        ),
        (observed(progress=STARTED), "compiling", SavedSteps(step=9), 0, "no step since it started; .*: step 9"),
        (observed(progress=WORDLESS), "training", NONE, None, "unknown: .*no step that xsft recognises"),
        (observed(progress=WORDLESS), "starting", NONE, None, "unknown: .*no step that xsft recognises"),
        (observed(progress=WORDLESS), "training", SavedSteps(step=9), None, "unknown: .*latest checkpoint: step 9"),
        (observed(progress=None), "queued", SILENT, 0, "its trainer is not running; no step would be lost"),
        (observed(progress=None), "starting", NONE, None, "unknown: .*its pods are not all running.$"),
        (
            observed(progress=None),
            "starting",
            SavedSteps(step=400, reached=430),
            None,
            "430 .latest checkpoint: step 400",
        ),
        (
            observed(progress=said(430, read_at=EARLIER), observed_at=NOW),
            "starting",
            NONE,
            None,
            "last read at .* step 430",
        ),
        (pending(), "starting", NONE, 0, "its trainer is not running"),
        (pending(UP_AGAIN), "starting", SavedSteps(step=400), None, "unknown: .*latest checkpoint: step 400"),
        (pending(jobset=jobset(restarts=1)), "starting", NONE, None, "unknown"),
        (observed(progress=None), "training", NONE, None, "unknown: its progress was not read"),
        (observed(progress=None), "evicted", NONE, None, "unknown"),
        (observed(progress=None, unread=(Unread(what="log", why="timeout"),)), "training", NONE, None, "timeout"),
    ],
    ids=[
        "saved by the log",
        "newer checkpoint in the bucket",
        "bucket not read",
        "at the last step",
        "steps before the last one saved",
        "never saved",
        "never saved, bucket not read",
        "resumed, bucket not read",
        "saved in the bucket only",
        "step of the metrics",
        "step of the record",
        "compiling",
        "training without a step",
        "starting without a line of the trainer",
        "training without a step, saved before",
        "queued",
        "starting, log not read",
        "starting, log not read, saved before",
        "starting, log read earlier",
        "starting, first pod waits",
        "starting, replaced pod waits",
        "restarted, pod waits",
        "training, progress not read",
        "evicted",
        "training, log not read",
    ],
)
def test_loss_counts_the_steps_since_the_last_checkpoint(
    observation: Observation, state: State, saved: SavedSteps, steps: int | None, words: str
) -> None:
    lost_steps = loss(observation, state, saved)
    assert lost_steps.steps == steps
    assert re.search(words, loss_text(lost_steps)), loss_text(lost_steps)


def test_chips_of_all_slices_are_freed_and_none_of_a_queued_run() -> None:
    assert loss(observed()).chips == 512
    assert loss(observed(progress=None), "queued").chips == 0
    assert loss(observed(), "evicted").chips == 0
    assert loss(observed(progress=None), "starting").chips == 512


def test_a_run_whose_pod_is_being_replaced_may_lose_steps() -> None:
    """The reason says that a step was read (`classify`), so the row has one."""
    replaced = observed()
    assert may_lose(replaced, row(replaced, "starting", "pods-replaced"))
    assert loss(replaced, "starting", reason="pods-replaced").steps == 20


@pytest.mark.parametrize("reason", ["admitted", "no-jobs", "workers-after-head"])
def test_a_run_without_a_running_trainer_has_nothing_to_lose(reason: str) -> None:
    observation = observed(progress=None)
    assert not may_lose(observation, row(observation, "starting", reason))
