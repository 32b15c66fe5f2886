"""A stage of a workload: its name and place in the order, what is found of it, and how it ended. Pure data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, get_args

from msgspec import Struct

from xsft.problems import Problem

StageName = Literal["convert", "train", "evaluate", "export", "serve"]

STAGES: tuple[StageName, ...] = get_args(StageName)
"""All stages, in the order in which a pipeline does them."""

StageState = Literal["done", "running", "torn", "failed", "missing"]
"""State of a stage: `torn`: begun by a process that was killed; `failed`: it ended without its result, or its verdict
was negative; `missing`: never begun, or its inputs changed since."""

StageAction = Literal["done", "created", "adopted", "attempt", "waiting", "skipped"]
"""What a pipeline did: nothing, because the result exists (`done`) or another caller makes it (`adopted`); the first or
a later attempt; nothing yet, because an earlier stage is not done (`waiting`) or the user left it out (`skipped`)."""

Progress = Callable[[str], None]


class StageFound(Struct, frozen=True, kw_only=True):
    """What the records and files say of a stage, for the inputs that it has now."""

    state: StageState
    why: str
    """Evidence of the state, one sentence."""
    result: str | None = None
    """Path or address of the result; None without one."""


class StageEnd(Struct, frozen=True, kw_only=True):
    """How one call of a stage ended."""

    action: StageAction
    state: StageState
    """`running`: it was started, and continues without this process."""
    why: str
    """Reason of the action; of the failure, if it failed."""
    result: str | None = None
    """As `StageFound.result`."""
    fix: str = ""
    """Next step for the user after a failure."""
    interrupted: bool = False
    """Whether the user interrupted it."""
    warnings: tuple[Problem, ...] = ()


class Stage(Protocol):
    """One stage of one workload."""

    @property
    def name(self) -> StageName: ...

    @property
    def run_name(self) -> str:
        """Return the name of the stage's own run: `<run_name>-<stage>`, and the training's own name."""
        ...

    @property
    def digest(self) -> str:
        """Return 64 hex digits over what decides the result. Raises as `find` does."""
        ...

    def find(self) -> StageFound:
        """Return what exists; reads small files only, and changes nothing.

        Raises SpecError for inputs that cannot be planned, Unreachable if the records cannot be read.
        """
        ...

    def perform(self, progress: Progress) -> StageEnd:
        """Do the stage: on this machine to its end, on a cluster until its object exists.

        Of two callers at once one does it. Raises as the verb of the stage does.
        """
        ...
