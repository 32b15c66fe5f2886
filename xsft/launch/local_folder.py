"""The folder of a run on this machine: its content, and whether a plan may continue in it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from xsft.base.errors import Refused, UsageError
from xsft.machine.regular import open_regular, read_text
from xsft.records.record import Record
from xsft.records.resumption import MAY_CHANGE_WORDS, changed_keys, complete_record, merge_losses
from xsft.runs.compare import later_losses
from xsft.runs.rows import text_of, worthless
from xsft.spec.digest import canonical
from xsft.trainer.lines import trainer_event
from xsft.trainer.losses import LossFold
from xsft.trainer.metrics import tensorboard_folder
from xsft.trainer.progress import LoggedLine, Progress, progress_of
from xsft.trainer.trainer import trainer_of

if TYPE_CHECKING:
    from xsft.planning.steps import Plan


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
        """Return the complete checkpoints, oldest first."""
        return tuple(folder for _, folder in sorted(self._complete()))

    def latest_step(self) -> int:
        """Return the step of the latest one; 0 without a checkpoint."""
        return max((step for step, _ in self._complete()), default=0)

    def _complete(self) -> Iterator[tuple[int, Path]]:
        """Yield the complete checkpoints. A save in progress is named `N.orbax-checkpoint-tmp`. source:
        orbax-checkpoint@0.12.8 path/atomicity.py
        """
        saved = self.path / "checkpoints"
        for folder in saved.iterdir() if saved.is_dir() else ():
            if folder.name.isdecimal() and (folder / "_CHECKPOINT_METADATA").is_file():
                yield int(folder.name), folder


def run_folder_of(plan: Plan) -> RunFolder:
    """Return the folder. Raises UsageError if the output is not a folder of this machine; Orbax accepts absolute paths
    only.
    """
    output = plan.run.output or ""
    if not Path(output).is_absolute():
        raise UsageError(
            f"output {output!r} is not an absolute path, and a local run writes to this machine",
            fix="use a folder, e.g. output: ./runs",
        )
    return RunFolder(path=Path(output) / plan.run_name)


def admit(plan: Plan, folder: RunFolder) -> Record:
    """Return the record to continue: the folder's, or a new one for an empty folder. Raises Refused if the folder holds
    the run of another workload, or one that xsft did not record.
    """
    now = json.loads(canonical(plan.run))
    record = recorded_run(folder)
    if record is None:
        if folder.latest_step():
            raise Refused(
                f"{folder.path} holds checkpoints (step {folder.latest_step()}) that xsft did not record",
                fix="choose another name or output; to start from them, set model.checkpoint: "
                f"{folder.path}/checkpoints/{folder.latest_step()}/{trainer_of(plan.run).WEIGHTS}",
            )
        return Record(
            run_name=plan.run_name, spec_digest=plan.spec_digest, spec=now, steps=plan.run.spec.train.steps, losses={}
        )
    changed = changed_keys(record.spec, now)
    if changed and not folder.latest_step():
        return replace(record, losses={})  # nothing was saved, so nothing is lost: a corrected workload may try again
    if changed:
        raise Refused(
            f"{folder.path} belongs to a run of another workload: {'; '.join(changed)}",
            fix="use another name, or restore the old values in the workload. A key that it does not set may have a "
            f"new default in this xsft; {MAY_CHANGE_WORDS}",
        )
    _refuse_fewer_steps(plan, folder)
    return record


def recover_losses(record: Record, folder: RunFolder) -> Record:
    """Return the record with the losses of an attempt whose xsft was killed: from its log, and from the event files for
    the steps after the log's end, because its trainer may have gone on.
    """
    if record.outcome != "running":
        return record
    last = record.attempts[-1]
    logged = _fold_losses(Path(last.log))
    known = {**later_losses(folder.path, after=max(logged.losses, default=logged.resumed_from or 0)), **logged.losses}
    kept = {step: loss for step, loss in known.items() if step <= folder.latest_step()}
    progress = whole_log(Path(last.log))
    nothing = None if progress.aborted else worthless(progress, asked=record.steps)
    ended = replace(
        last,
        outcome="failed",
        reason=text_of(progress, nothing) if nothing else "xsft or the machine stopped",
        state_reason=nothing,
        last_step=max(logged.losses, default=None),
    )
    return replace(
        record,
        attempts=(*record.attempts[:-1], replace(ended, resumed_from=logged.resumed_from)),
        losses=merge_losses(record.losses, kept, resumed_from=logged.resumed_from),
    )


def _refuse_fewer_steps(plan: Plan, folder: RunFolder) -> None:
    steps, latest = plan.run.spec.train.steps, folder.latest_step()
    if steps < latest:
        raise Refused(
            f"{folder.path} has already reached step {latest}, and train.steps is {steps}",
            fix=f"set at least {latest} steps, or use another name",
        )


def recorded_run(folder: RunFolder) -> Record | None:
    """Return the folder's record, or None without one. Raises Refused for one that cannot be read."""
    try:
        return complete_record(read_text(folder.record))
    except FileNotFoundError:
        return None
    except ValueError as broken:
        # Without its record, a folder with checkpoints is refused, too.
        damaged = folder.path if folder.latest_step() else folder.record
        move = shlex.join(("mv", str(damaged), f"{damaged}.damaged"))
        raise Refused(
            f"{folder.record} cannot be read: {broken}", fix=f"to start the run again, move it away: {move}"
        ) from broken


def _fold_losses(log: Path) -> LossFold:
    found = LossFold()
    for line in _log_lines(log):
        found.take(trainer_event(line))
    return found


def whole_log(log: Path) -> Progress:
    """Return the progress in an attempt's whole log; empty if there is no log."""
    return progress_of((LoggedLine(text=line) for line in _log_lines(log)), read_at="", from_start=True)


def _log_lines(log: Path) -> list[str]:
    if not log.is_file():
        return []
    with open_regular(log) as file:
        return file.read().decode("utf-8", "replace").splitlines()


class ProfilerTrace(Struct, frozen=True, kw_only=True):
    """A trace in XPlane's format."""

    path: Path
    bytes: int


def newest_trace(folder: Path) -> ProfilerTrace | None:
    """Return the newest trace of a run; None without one. `folder`: `<output>/<run name>`.

    source: jax@0.11 profiler.py: `<log_dir>/plugins/profile/<time>/<host>.xplane.pb`.
    """
    found = Path(tensorboard_folder(str(folder)), "plugins", "profile").glob("*/*.xplane.pb")
    newest = max(found, key=lambda path: (path.parent.name, path.name), default=None)
    return ProfilerTrace(path=newest, bytes=newest.stat().st_size) if newest else None
