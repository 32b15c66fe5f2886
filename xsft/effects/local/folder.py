"""The folder of a run on this machine: what it holds, and whether a plan may go on in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from xsft.effects.machine.regular import open_regular, read_text
from xsft.errors import Refused, UsageError
from xsft.spec.digest import canonical
from xsft.states.model import Progress
from xsft.states.worth import text_of, worthless
from xsft.trainers.lines import Restored, Step, StepLoss, parse
from xsft.trainers.progress import Said, progress_of
from xsft.trainers.record import MAY_CHANGE_WORDS, Record, differences, from_json, merged

if TYPE_CHECKING:
    from xsft.steps import Plan


class RunFolder(Struct, frozen=True, kw_only=True):
    path: Path
    """`<output>/<run_name>`, absolute."""

    @property
    def own(self) -> Path:
        return self.path / "xsft"

    @property
    def record(self) -> Path:
        return self.own / "run.json"

    @property
    def lock(self) -> Path:
        return self.own / "lock"

    def checkpoints(self) -> tuple[Path, ...]:
        """Complete ones, oldest first."""
        return tuple(folder for _, folder in sorted(self._complete()))

    def latest_step(self) -> int:
        """0 without a checkpoint."""
        return max((step for step, _ in self._complete()), default=0)

    def _complete(self) -> Iterator[tuple[int, Path]]:
        """A save in progress is named `N.orbax-checkpoint-tmp`. source: orbax-checkpoint@0.12.8 path/atomicity.py"""
        saved = self.path / "checkpoints"
        for folder in saved.iterdir() if saved.is_dir() else ():
            if folder.name.isdecimal() and (folder / "_CHECKPOINT_METADATA").is_file():
                yield int(folder.name), folder


def folder_of(plan: Plan) -> RunFolder:
    """Raises UsageError where the output is not a folder of this machine; Orbax takes absolute paths only."""
    output = plan.run.output or ""
    if not Path(output).is_absolute():
        raise UsageError(
            f"output {output!r} is not an absolute path, and a local run writes to this machine",
            fix="name a folder, e.g. output: ./runs",
        )
    return RunFolder(path=Path(output) / plan.run_name)


def admit(plan: Plan, folder: RunFolder) -> Record:
    """The record to go on with: the folder's, or a new one for an empty folder.

    Raises Refused when the folder holds another workload's run, or one that xsft cannot tell.
    """
    now = json.loads(canonical(plan.run))
    record = _read(folder)
    if record is None:
        if folder.latest_step():
            raise Refused(
                f"{folder.path} holds checkpoints (step {folder.latest_step()}) and no record of xsft's: "
                "whose they are cannot be told",
                fix="take another name or output; to start from them, set model.checkpoint: "
                f"{folder.path}/checkpoints/{folder.latest_step()}/model_params",
            )
        return Record(
            run_name=plan.run_name, spec_digest=plan.spec_digest, spec=now, steps=plan.run.spec.train.steps, losses={}
        )
    changed = differences(record.spec, now)
    if changed and not folder.latest_step():
        return replace(record, losses={})  # nothing was saved, so nothing is lost: a corrected workload may try again
    if changed:
        raise Refused(
            f"{folder.path} holds a run of another workload: {'; '.join(changed)}",
            fix="take another name, or write the old values into the workload (one that it leaves open may have"
            f" another default in this xsft); {MAY_CHANGE_WORDS}",
        )
    _refuse_fewer_steps(plan, folder)
    return record


def recovered(record: Record, folder: RunFolder) -> Record:
    """With the losses of an attempt that was killed together with xsft; its log has them."""
    if record.outcome != "running":
        return record
    last = record.attempts[-1]
    losses, resumed_from = _logged(Path(last.log))
    kept = {step: loss for step, loss in losses.items() if step <= folder.latest_step()}
    said = whole_log(Path(last.log))
    nothing = None if said.aborted else worthless(said, asked=record.steps)
    ended = replace(
        last,
        outcome="failed",
        reason=text_of(said, nothing) if nothing else "xsft or the machine stopped",
        state_reason=nothing,
        last_step=max(losses, default=None),
    )
    return replace(
        record,
        attempts=(*record.attempts[:-1], replace(ended, resumed_from=resumed_from)),
        losses=merged(record.losses, kept, resumed_from=resumed_from),
    )


def _refuse_fewer_steps(plan: Plan, folder: RunFolder) -> None:
    steps, latest = plan.run.spec.train.steps, folder.latest_step()
    if steps < latest:
        raise Refused(
            f"{folder.path} has reached step {latest} already, and train.steps is {steps}",
            fix=f"steps may only grow: {latest} or more, or take another name",
        )


def _read(folder: RunFolder) -> Record | None:
    try:
        return from_json(read_text(folder.record))
    except FileNotFoundError:
        return None
    except ValueError as broken:
        raise Refused(
            f"{folder.record} cannot be read: {broken}", fix="take another name or output; nothing was changed"
        ) from broken


def _logged(log: Path) -> tuple[dict[int, float], int | None]:
    losses: dict[int, float] = {}
    exact: dict[int, float] = {}
    resumed_from = None
    for line in _lines(log):
        match parse(line):
            case StepLoss(step=step, loss=loss):
                exact[step] = loss
            case Step(step=step, loss=loss):
                losses[step] = exact.get(step, loss)
            case Restored(step=step):
                resumed_from = step
            case _:
                pass
    return losses, resumed_from


def whole_log(log: Path) -> Progress:
    """What an attempt's trainer said, from its first line to its last; nothing where there is no log."""
    return progress_of((Said(text=line) for line in _lines(log)), read_at="", from_start=True)


def _lines(log: Path) -> list[str]:
    if not log.is_file():
        return []
    with open_regular(log) as file:
        return file.read().decode("utf-8", "replace").splitlines()
