"""A stage of a workload: its name, order, plan, state and end, and the record beside its result. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args

import msgspec
from msgspec import Struct, field

from xsft.base.lenient import JsonObject, ShowLine
from xsft.base.problems import Problem

StageName = Literal["convert", "train", "evaluate", "export", "serve"]

STAGES: tuple[StageName, ...] = get_args(StageName)
"""All stages, in the order in which a pipeline does them."""

NEEDS: Mapping[StageName, StageName] = MappingProxyType(
    {"train": "convert", "evaluate": "train", "export": "train", "serve": "export"}
)
"""Stage -> the stage whose result it reads."""

StageState = Literal["done", "running", "torn", "failed", "missing"]
"""State of a stage: `torn`: begun by a process that was killed; `failed`: it ended without its result; `missing`: never
begun, or its inputs changed since."""

StageAction = Literal["done", "created", "adopted", "attempt", "waiting", "skipped"]
"""The action of a pipeline: none, because the result exists (`done`) or another caller is making it (`adopted`); the
first or a later attempt; nothing yet, because an earlier stage is not done (`waiting`) or the user left it out
(`skipped`)."""

StageVerdict = Literal["passed", "failed", "not-judged"]
"""Verdict of an evaluation that is done."""


class StagePlan(Struct, frozen=True, kw_only=True):
    """The work that a stage would do."""

    name: StageName
    run_name: str
    """`<run_name>-<stage>`; for the training, `<run_name>`."""
    digest: str | None
    """Digest of all that decides the result, 64 hex digits: another digest is another result, at another path. None if
    the stage cannot be planned, or if what an earlier stage will write decides too, as for export and serve."""
    writes: str | None
    """Path of the result; for `serve` the address; None if the stage cannot be planned."""
    argv: tuple[str, ...] = ()
    """Command of the process that does it; empty if there is none."""
    xpk_argv: tuple[str, ...] | None = None
    """The `xpk workload create` line; None on this machine."""
    manifest: dict[str, Any] | None = None
    """The object that will be created; None on this machine."""
    dependents: tuple[JsonObject, ...] = ()
    """Objects that are created after `manifest`, which it owns: the Service and the PodDisruptionBudget of a server."""
    notes: tuple[str, ...] = ()
    """Further notes, one sentence each: slices, time limits, sizes."""
    problems: tuple[Problem, ...] = ()
    """Problems of this stage only, and the reasons why it cannot be planned."""


class StageFound(Struct, frozen=True, kw_only=True):
    """The state of a stage by the records and files, for the inputs that it has now."""

    state: StageState
    why: str
    """Evidence of the state, one sentence."""
    result: str | None = None
    """Path or address of the result; None without one."""
    verdict: StageVerdict | None = None
    """Verdict of an evaluation that is done; None for other stages."""
    digest: str | None = None
    """As `StagePlan.digest`."""
    is_by_hand: bool = False
    """Whether only the user starts it: `perform` returns the command."""


class StageEnd(Struct, frozen=True, kw_only=True):
    """The end of one call of a stage."""

    action: StageAction
    state: StageState
    """`running`: it was started, and continues without this process, or another process does it."""
    why: str
    """Reason of the action; of the failure, if it failed."""
    result: str | None = None
    verdict: StageVerdict | None = None
    fix: str = ""
    """Next step for the user after a failure."""
    interrupted: bool = False
    """Whether the user interrupted it."""
    warnings: tuple[Problem, ...] = ()
    digest: str | None = None


def stage_action(did: Literal["finished", "created", "attempt", "adopted"]) -> StageAction:
    """Return the action of a submission or of a run on this machine as a stage's action: `finished` is `done`."""
    return "done" if did == "finished" else did


class Stage(Protocol):
    """One stage of one workload."""

    @property
    def name(self) -> StageName: ...

    @property
    def run_name(self) -> str:
        """Return the name of the stage's own run."""

    def plan(self) -> StagePlan:
        """Return the plan of the stage. It may read small files, and works before the stages that it needs are done.

        Raises SpecError for inputs that cannot be planned, Unreachable if a file cannot be read.
        """

    def find(self) -> StageFound:
        """Return the state of the stage; reads small files only, and changes nothing. Raises as `plan` does."""

    def perform(self, progress: ShowLine) -> StageEnd:
        """Do the stage: on this machine to its end, on a cluster until its object exists.

        Of two callers at once one does it. Raises as the verb of the stage does.
        """

    def watch(self, timeout_s: float | None) -> None:
        """Wait for the end of a stage that another process or a cluster is doing.

        Raises TimedOut, and RunFailed, Unknown or Unreachable if the stage will not be done.
        """


class ResultRecord(Struct, frozen=True, kw_only=True):
    """Written before the work starts, and again at its end. Unknown keys are ignored."""

    SCHEMA: ClassVar[str]

    digest: str
    """Digest of the inputs, 64 hex digits."""
    run_name: str
    """Run name of the stage."""
    outcome: Literal["running", "completed", "failed", "interrupted"] | str = "running"  # noqa: PYI051 - a later xsft's
    """`running` if no process holds the lock of the work: it was killed."""
    started_at: str = ""
    """UTC, ISO 8601."""
    finished_at: str | None = None
    reason: str | None = None
    """Why it did not complete."""
    argv: tuple[str, ...] = ()
    """Arguments of MaxText's program."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """The stage's inputs, as far as they are in the digest."""


R = TypeVar("R", bound=ResultRecord)


def to_document(record: ResultRecord) -> dict[str, Any]:
    return {"schema": record.SCHEMA, **msgspec.to_builtins(record)}


def to_json(record: ResultRecord) -> str:
    return json.dumps(to_document(record), indent=1, ensure_ascii=False) + "\n"


def decode_record(content: bytes, decoder: msgspec.json.Decoder[R]) -> R | None:
    """Return the record; None for other or incomplete content."""
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class WrittenResult(ResultRecord, frozen=True, kw_only=True):
    """The record beside any stage's result, or evaluation.json, which is written once, at the end."""

    outcome: str = "completed"
    judgement: dict[str, Any] = field(default_factory=dict)
    """Of an evaluation."""


_WRITTEN = msgspec.json.Decoder(WrittenResult)


def is_complete(content: bytes, *, digest: str | None) -> bool:
    """Return whether the file beside a result says that it is complete, with these inputs; an evaluation also, that its
    verdict did not fail."""
    written = decode_record(content, _WRITTEN)
    if written is None or written.digest != digest:
        return False
    return written.outcome == "completed" and written.judgement.get("verdict") != "failed"
