"""The document of `xsft run`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xsft.commands.interface_base import Document, Problem


class StageResult(Document):
    """One stage of the workload."""

    name: Literal["convert", "train", "evaluate", "export", "serve"]
    run_name: str
    """Run of the stage: `<run_name>-<stage>`; the training has its own name."""
    action: Literal["done", "created", "adopted", "attempt", "waiting", "skipped"]
    """done: the result existed · created, attempt: done now, by the first or a later attempt · adopted: another process
    or an earlier call does it · waiting: an earlier stage is not done · skipped: left out by --from or --to, or not
    done on this machine."""
    why: str
    """Evidence for the action; for a failure its reason."""
    state: Literal["done", "running", "torn", "failed", "missing"] | None
    """State of the stage now; null if it was not looked at."""
    digest: str | None
    """Digest of all that decides the result, 64 hex digits; null if the stage was not looked at, or could not be
    planned."""
    result: str | None
    """Path or address of the result; null without one."""
    verdict: Literal["passed", "failed", "not-judged"] | None
    """Verdict of `evaluate`; null for other stages."""


class RunDocument(Document):
    """`xsft run FILE --json`."""

    schema_: Literal["xsft.run/1"] = Field(alias="schema")
    stages: list[StageResult]
    """Stages of the workload, in order."""
    problems: list[Problem]
    exit_status: int
    """Exit status of the command."""
