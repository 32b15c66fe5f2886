from __future__ import annotations

import re

import pytest

from tests.observations import NOW, observed, said
from tests.replacing import replace
from xsft.states.losing import Loss, loss_of, loss_text
from xsft.states.model import Observation, Progress, State, Status, Unread
from xsft.states.rows import row_of


def loss(seen: Observation, state: State = "training") -> Loss:
    return loss_of(row_of(seen, Status(state=state), now=NOW))


@pytest.mark.parametrize(
    ("seen", "state", "steps", "words"),
    [
        (observed(), "training", 20, "20 steps since the checkpoint of step 100 would be lost .it is at step 120."),
        (observed(progress=said(100)), "training", 0, "step 100 is its last step: nothing would be lost"),
        (observed(progress=said(7, saved_step=None)), "training", 7, "no checkpoint of it was seen: all of its 7"),
        (observed(progress=Progress(source="log", read_at=NOW)), "compiling", 0, "no step yet"),
        (
            observed(progress=Progress(source="log", read_at=NOW)),
            "training",
            None,
            "not known: .*no step that xsft knows",
        ),
        (observed(progress=None), "queued", 0, "no step yet"),
        (observed(progress=None), "starting", 0, "no step yet"),
        (observed(progress=None), "training", None, "not known: its progress was not read"),
        (observed(progress=None), "evicted", None, "not known"),
        (observed(progress=None, unread=(Unread(what="log", why="timeout"),)), "training", None, "timeout"),
    ],
)
def test_what_would_be_lost(seen: Observation, state: State, steps: int | None, words: str) -> None:
    found = loss(seen, state)
    assert found.steps == steps
    assert re.search(words, loss_text(found))


def test_chips_of_all_slices_are_freed_and_none_of_a_queued_run() -> None:
    assert loss(observed()).chips == 512
    assert loss(observed(progress=None), "queued").chips == 0
    assert loss(observed(), "evicted").chips == 0
    assert loss(observed(progress=None), "starting").chips == 512


def test_a_run_that_trained_and_has_a_pod_replaced_has_done_something() -> None:
    row = row_of(observed(progress=None), Status(state="starting", reason="pods-replaced"), now=NOW)
    assert loss_of(row).steps is None


def test_a_checkpoint_ahead_of_what_was_printed_loses_nothing() -> None:
    assert loss(replace(observed(), progress=said(90))).steps == 0
