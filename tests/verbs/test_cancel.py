"""`xsft cancel`: what is asked and printed. What is deleted: tests/runs/test_cancel.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.documents import read_document
from tests.observations import jobset, observed, runs_read, said
from tests.runs.test_cancel import STORY, Told
from xsft.base.errors import Refused
from xsft.base.problems import warning
from xsft.runs.losing import SavedSteps
from xsft.verbs.cancel import cancel


def cancel_run(canceller: Told, name: str, *, yes: bool = False, json: bool = False) -> int:
    confirm = None if canceller.answer is None else canceller.ask
    return cancel(name, runs=canceller, confirm=confirm, yes=yes, json=json)


def test_cancel_deletes_the_jobset_by_uid_and_prints_what_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    canceller = Told(runs_read(STORY), answer=True)
    assert cancel_run(canceller, "gemma") == 0
    assert canceller.deleted == [("default", "gemma", "uid-gemma")]
    assert canceller.recorded == ["uid-gemma"]
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [
        "gemma  training  step 120/1000  loss 2.346",
        "  JobSet gemma, uid uid-gemma, namespace default of my-project/us-east5-b/my-cluster",
        "  20 steps since the checkpoint of step 100 would be lost (it is at step 120)",
        "  512 chips would be freed",
    ]
    assert shown.out.splitlines() == [
        "gemma: cancelled: JobSet gemma, uid uid-gemma, is deleted; 512 chips are freed",
        "checkpoints  gs://my-bucket/runs/gemma/checkpoints (kept; submitting again resumes from step 100)",
    ]


LATE = runs_read((observed("gemma", progress=said(1900, saved_step=None)),))
"""Its last save is further back than the end of its log that is read."""


def test_cancel_counts_lost_steps_from_the_newest_checkpoint_in_the_bucket(capsys: pytest.CaptureFixture[str]) -> None:
    canceller = Told(LATE, checkpoints=SavedSteps(step=1000))
    assert cancel_run(canceller, "gemma", yes=True, json=True) == 0
    shown = capsys.readouterr()
    assert "  900 steps since the checkpoint of step 1000 would be lost (it is at step 1900)" in shown.err.splitlines()
    printed = json.loads(shown.out)
    assert (printed["saved_step"], printed["lost_steps"]) == (1000, 900)


def test_a_bucket_that_cannot_be_read_makes_the_loss_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    canceller = Told(LATE, checkpoints=SavedSteps(why="permission denied (HTTP 403)"))
    assert cancel_run(canceller, "gemma", yes=True, json=True) == 0
    shown = capsys.readouterr()
    assert "how many steps would be lost is unknown: it is at step 1900" in shown.err
    assert "permission denied (HTTP 403)" in shown.err
    printed = json.loads(shown.out)
    assert (printed["saved_step"], printed["lost_steps"]) == (None, None)


@pytest.mark.parametrize("answer", [False, None])
def test_cancel_deletes_nothing_after_a_no_or_without_a_terminal(answer: bool | None) -> None:
    canceller = Told(runs_read(STORY), answer=answer)
    with pytest.raises(Refused, match="Nothing was cancelled") as raised:
        cancel_run(canceller, "gemma")
    assert raised.value.exit_status == 4
    assert ("--yes" in raised.value.fix) == (answer is None)
    assert canceller.deleted == []
    assert canceller.questions == ([] if answer is None else ["Cancel it? [y/N] "])


def test_a_run_created_by_xpk_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    canceller = Told(runs_read((observed("theirs", jobset=jobset("theirs", ours=False)),)))
    assert cancel_run(canceller, "theirs", yes=True) == 0
    assert "(not created by xsft)" in capsys.readouterr().err
    assert cancel_run(canceller, "theirs", yes=True, json=True) == 0
    assert json.loads(capsys.readouterr().out)["ours"] is False


def test_a_run_on_this_machine_is_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    canceller = Told(runs_read(STORY), answer=True)
    assert cancel_run(canceller, "tiny") == 0
    assert (canceller.interrupted, canceller.deleted) == (["tiny"], [])
    capsys.readouterr()
    assert cancel_run(canceller, "tiny", yes=True, json=True) == 0
    printed = document(capsys)
    assert (printed["action"], printed["jobset"], printed["saved_step"]) == ("cancelled", None, 100)
    for declined in (False, None):
        canceller = Told(runs_read(STORY), answer=declined)
        with pytest.raises(Refused, match="Nothing was cancelled"):
            cancel_run(canceller, "tiny")
        assert canceller.interrupted == []


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = capsys.readouterr().out.splitlines()
    return read_document("cancel", line)


def test_cancel_prints_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    canceller = Told(runs_read(STORY), failing=warning("record-not-completed", "", "No record.", ""))
    assert cancel_run(canceller, "gemma", yes=True, json=True) == 0
    printed = document(capsys)
    assert (printed["action"], printed["uid"], printed["lost_steps"], printed["freed_chips"]) == (
        "cancelled",
        "uid-gemma",
        20,
        512,
    )
    assert printed["problems"][0]["id"] == "record-not-completed"
    assert cancel_run(canceller, "old", json=True) == 0
    assert document(capsys)["action"] == "nothing"
