"""The goals of `xsft wait`, and whether a run has reached its goal or no longer can. Pure."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from xsft.base.state_names import ENDED, RUNNING
from xsft.runs.rows import Row
from xsft.runs.worth import is_worthless

WaitVerdict = Literal["reached", "ended", "waiting"]
"""`ended`: the run ended, or will end, without reaching its goal."""


class Goal(Struct, frozen=True, kw_only=True):
    kind: Literal["done", "running", "step"]
    step: int = 0
    """Only of kind `step`."""

    @property
    def text(self) -> str:
        return f"step={self.step}" if self.kind == "step" else self.kind


DONE = Goal(kind="done")


def parse_goal(text: str) -> Goal:
    """Return the goal. Raises ValueError with the allowed goals."""
    if text in ("done", "running"):
        return Goal(kind="done" if text == "done" else "running")
    if match := re.fullmatch(r"step=([1-9][0-9]{0,17})", text):
        return Goal(kind="step", step=int(match[1]))
    raise ValueError(f"{text!r} is not a valid goal: write done, running, or step=N with N from 1")


def verdict(goal: Goal, row: Row) -> WaitVerdict:
    """Return whether the run reached its goal. A succeeded run was running and did every requested step; a run whose
    steps train nothing never succeeds.
    """
    if _reached(goal, row):
        return "reached"
    return "ended" if row.state in ENDED or (goal.kind == "done" and is_worthless(row.reason)) else "waiting"


def beyond(goal: Goal, row: Row) -> bool:
    """Return whether the step is beyond the run's last one."""
    return goal.kind == "step" and row.steps is not None and goal.step > row.steps


def _reached(goal: Goal, row: Row) -> bool:
    match goal.kind:
        case "done":
            return row.state in ("succeeded", "serving")  # a server never ends by itself
        case "running":
            return row.state in RUNNING or row.state == "succeeded"
        case "step":
            done = row.steps if row.state == "succeeded" else row.step
            return done is not None and done >= goal.step
