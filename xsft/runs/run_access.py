"""The runs that a verb is about, and the one read of them that the command line and Python callers share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from xsft.base.aliases import ShowLine
from xsft.base.errors import XsftError
from xsft.base.problems import Problem
from xsft.cluster.delete import DeleteOutcome
from xsft.cluster.observation import Observation, RunObject, Status
from xsft.runs.folding import RowFilter, chosen
from xsft.runs.lookup import RunsAnswer, first_missing_run
from xsft.runs.losing import SavedSteps
from xsft.runs.rows import Row
from xsft.runs.worth import zero_loss


class RunAccess(Protocol):
    """Access to the runs; described and implemented by `runs.read_all.Runs`."""

    def now(self) -> str: ...

    def look(self) -> RunsAnswer: ...

    def listen(self, say: ShowLine, /) -> None: ...

    def keep(self, seen: Iterable[tuple[Observation, Status]], /) -> None: ...

    def delete(self, seen: Observation, jobset: RunObject, /) -> DeleteOutcome: ...

    def record_cancel(self, seen: Observation, jobset: RunObject, /) -> tuple[Problem, ...]: ...

    def stop_local(self, seen: Observation, /) -> bool: ...

    def saved(self, seen: Observation, /) -> SavedSteps: ...


class StatusRead(Struct, frozen=True, kw_only=True):
    """The rows that a filter selects, as of one read."""

    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]
    """Clusters that did not answer, and runs whose loss is 0.000."""
    missing: XsftError | None
    """The error for the names that no run has, or that could not be read."""
    found: RunsAnswer
    """All runs."""


def read_status(runs: RunAccess, wanted: RowFilter) -> StatusRead:
    """Read the runs now. Raises Unreachable if nothing could be read."""
    found = runs.look()
    rows = tuple(one.row for one in chosen(found.rows, wanted))
    problems = (*found.problems, *(one for row in rows for one in zero_loss(row)))
    return StatusRead(rows=rows, problems=problems, missing=first_missing_run(wanted.runs, found), found=found)
