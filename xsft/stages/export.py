"""Exports trained weights on this machine, once: MaxText's to_huggingface in its environment, then the verification.

Of two concurrent callers one exports, and the other waits and uses the result. Nothing is deleted or overwritten: an
interrupted attempt keeps its folder, and the next one gets another.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.amounts import size_text
from xsft.base.errors import EnvironmentMissing, XsftError
from xsft.base.result_record import to_json
from xsft.base.stage import StageEnd, StageFound, stage_action
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.local_folder import RunFolder
from xsft.launch.local_machine import Machine
from xsft.launch.local_program import follow_program
from xsft.launch.stage_record import (
    StageRun,
    begin_attempt,
    beside_fields,
    check_usable,
    read_stage,
    run_recorded,
    save_record,
    stage_record,
    with_end,
)
from xsft.machine import clock
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.lock_holder import holder
from xsft.machine.memory import memory_bytes
from xsft.machine.paths import private_folder
from xsft.machine.pid_namespace import refuse_where_harmful
from xsft.machine.scratch import scratch_folder
from xsft.records import EXPORT_KEY
from xsft.records.record import Outcome, Record
from xsft.stages.export_verify import verify, verify_logits, with_logits
from xsft.stages.export_work import ExportShop, ask_worker, environment, reads_bucket
from xsft.stages.exported import sizes_in
from xsft.weights.export_plan import ExportPlan
from xsft.weights.export_record import FILE, ExportRecord
from xsft.weights.export_verification import PROCESS_BYTES, Verification, logits_memory, verification_text
from xsft.weights.exporter import MODEL_FILES, model_files_job

NO_ADAPTERS = "the engine reads no adapters"


class ExportResult(Struct, frozen=True, kw_only=True):
    action: Literal["finished", "created", "attempt"]
    """`finished`: it existed. `created`, `attempt`: exported now, by the first or a later attempt of this run."""
    why: str
    outcome: Outcome
    reason: str | None = None
    """Why it did not complete; None if it did."""
    plan: ExportPlan
    folder: str | None
    """The Hugging Face folder; None if there is no complete one."""
    verification: Verification | None = None
    record: Path | None = None
    log: Path | None = None


class ExportWork(Struct, frozen=True, kw_only=True):
    """The inputs of an export on this machine."""

    look: Callable[[], ExportPlan]
    """Read the files again and return the plan."""
    machine: Callable[[], Machine]
    """Return the machine; called once there is something to export."""
    say: Callable[[str], None]
    engine: Callable[[], BuiltEnvironment] | None = None
    """Return the engine with which logits are compared; None: only tensors are compared."""


def export_here(work: ExportWork) -> ExportResult:
    """Return the existing export, else export and verify. One that fails or is interrupted gives a result that states
    it. Raises Refused, EnvironmentMissing.
    """
    plan = work.look()
    if _is_enough(plan, work) and not _is_unfinished(plan):
        return existing_result(plan)
    lock = _run_folder(plan).lock
    with (
        check_usable(Path(plan.output)),
        exclusive(lock, waiting=lambda: work.say("another xsft is exporting this run; waiting for it")),
    ):
        plan = work.look()  # another process may have finished it
        if plan.whole:
            _mend_export(plan, at=clock.now())
            return existing_result(plan) if _is_enough(plan, work) else _with_logits(plan, work)
        return _export_once(plan, work)


def find_export(plan: ExportPlan) -> StageFound:
    """Return what exists of the export; reads small files only."""
    if not plan.whole and holder(_run_folder(plan).lock) is not None:
        return StageFound(state="running", why="another xsft is exporting it")
    return export_found(plan, result=plan.writes)


def export_found(plan: ExportPlan, *, result: str) -> StageFound:
    """Return the state of the export by its plan. `result`: the folder of a complete one."""
    if plan.whole:
        verified = plan.recorded.verification if plan.recorded else None
        return StageFound(state="done", why=verification_text(verified), result=result)
    if plan.recorded is not None and plan.recorded.outcome == "failed":
        return StageFound(state="failed", why=plan.recorded.reason or "the exporter failed")
    return StageFound(state="torn" if plan.recorded else "missing", why=plan.why)


def stage_end(done: ExportResult) -> StageEnd:
    """Return the end of a pipeline's stage."""
    is_done = done.outcome == "completed"
    return StageEnd(
        action=stage_action(done.action),
        state="done" if is_done else "torn" if done.outcome == "interrupted" else "failed",
        why=done.why if is_done else done.reason or "the exporter failed",
        result=done.folder,
        fix="" if is_done else f"The whole output: {done.log}.",
        interrupted=done.outcome == "interrupted",
    )


def _is_enough(plan: ExportPlan, work: ExportWork) -> bool:
    """Return whether the export is complete, and its logits were compared if that is asked for."""
    verified = plan.recorded.verification if plan.recorded else None
    return bool(plan.whole) and (work.engine is None or bool(verified and (verified.logits or verified.logits_skipped)))


def existing_result(plan: ExportPlan) -> ExportResult:
    """Return the complete export that the plan found."""
    verified = plan.recorded.verification if plan.recorded else None
    return ExportResult(
        action="finished",
        why=f"step {plan.inputs.step} was exported before; {verification_text(verified)}",
        outcome="completed",
        plan=plan,
        folder=plan.writes,
        verification=verified,
    )


def _export_once(plan: ExportPlan, work: ExportWork) -> ExportResult:
    refuse_without_room(plan)
    run, machine = stage_run(plan), work.machine()
    before = stage_record(run)
    refuse_where_harmful(machine.contain())
    Path(plan.directory).mkdir(parents=True, exist_ok=True)
    record = begin_attempt(before, plan.argv, folder=run.folder, machine=machine, save=partial(_save, plan=plan))

    def end(outcome: Outcome, reason: str | None = None, verified: Verification | None = None) -> ExportResult:
        """Record the end in both records."""
        done = with_end(record, outcome=outcome, reason=reason, status=None, at=clock.now())
        _save(done, plan, verification=verified)
        is_whole = outcome == "completed"
        return ExportResult(
            action="created" if len(record.attempts) == 1 else "attempt",
            why=verification_text(verified) if is_whole else "",
            outcome=outcome,
            reason=reason,
            plan=plan,
            folder=plan.directory if is_whole else None,
            verification=verified,
            record=run.folder.record,
            log=Path(record.last.log),
        )

    def export() -> ExportResult:
        work.say(f"exporting step {plan.inputs.step} as {plan.inputs.form}")
        argv, env = (*machine.contain().prefix, *record.last.argv), environment(shop, online=_is_online(plan))
        written = follow_program(argv, name="to_huggingface", env=env, log=Path(record.last.log))
        if written.status:
            return end("failed", written.why)
        try:
            verified = _verified(plan, work, shop)
        except XsftError as failed:
            return end("failed", f"{failed.message} {failed.fix}".strip())
        if not verified.passed:
            return end("failed", "; ".join(verified.problems), verified)
        return end("completed", None, verified)

    with scratch_folder("export") as scratch:
        shop = ExportShop(machine=machine, scratch=scratch, logs=Path(plan.directory) / "xsft")
        return run_recorded(export, record=end)


def _verified(plan: ExportPlan, work: ExportWork, shop: ExportShop) -> Verification:
    """Add the source model's files, and verify. Only a verified folder is complete."""
    job = model_files_job(plan, folder=plan.directory)
    files = ask_worker(MODEL_FILES, job, shop, online=_is_online(plan))
    work.say("comparing the tensors with the checkpoint")
    verified = replace(verify(plan, shop), config=files["config"])
    return _logits(verified, plan, work, shop) if verified.passed else verified


def _is_online(plan: ExportPlan) -> bool:
    """Return whether the tokenizer or the source model is a repository of the hub, or weights are in a bucket."""
    source = plan.inputs.source
    places = (plan.inputs.tokenizer, *((source.repo,) if source else ()))
    return reads_bucket(plan) or not all(Path(place).is_dir() for place in places)


def _logits(verified: Verification, plan: ExportPlan, work: ExportWork, shop: ExportShop) -> Verification:
    """Return the verification with the comparison of logits, or the reason why there is none."""
    if work.engine is None:
        return verified
    why = NO_ADAPTERS if plan.inputs.form == "adapters" else why_no_logits(plan)
    if why:
        return replace(verified, logits_skipped=why)
    work.say("comparing logits with the engine's")
    (verdict,) = verify_logits(plan, (Path(plan.directory),), shop, engine=work.engine())
    return with_logits(verified, verdict, dtype=plan.inputs.dtype)


def _with_logits(plan: ExportPlan, work: ExportWork) -> ExportResult:
    """Compare the logits of a complete export, and record that. An export whose logits differ no longer counts as
    complete."""
    assert plan.recorded is not None
    with scratch_folder("export") as scratch:
        shop = ExportShop(machine=work.machine(), scratch=scratch, logs=Path(plan.directory) / "xsft")
        verified = _logits(plan.recorded.verification or Verification(), plan, work, shop)
    outcome: Outcome = "completed" if verified.passed else "failed"
    why = None if verified.passed else "; ".join(verified.problems)
    record = replace(plan.recorded, verification=verified, outcome=outcome, reason=why)
    write_atomic(Path(plan.directory) / FILE, to_json(record))
    return replace(
        existing_result(plan),
        why=verification_text(verified),
        outcome=outcome,
        reason=why,
        folder=plan.whole if verified.passed else None,
        verification=verified,
    )


def _run_folder(plan: ExportPlan) -> RunFolder:
    """Return the folder of the export's own run; its lock covers every export of the training."""
    return stage_run(plan).folder


def stage_run(plan: ExportPlan) -> StageRun:
    inputs = {"directory": plan.directory, **to_builtins(plan.inputs)}
    return StageRun(run_name=plan.run_name, digest=plan.digest, output=plan.output, key=EXPORT_KEY, inputs=inputs)


def _save(record: Record, plan: ExportPlan, *, verification: Verification | None = None) -> None:
    """Write the record beside the model, then the run's. The first one decides whether the export is complete."""
    folder = Path(plan.directory)
    beside = ExportRecord(
        **beside_fields(record),
        inputs=to_builtins(plan.inputs),
        files=sizes_in(folder) if record.last.outcome == "completed" else {},
        verification=verification,
    )
    private_folder(folder / "xsft")
    write_atomic(folder / FILE, to_json(beside))
    save_record(record, _run_folder(plan))


def _is_unfinished(plan: ExportPlan) -> bool:
    """Return whether the run's record says that an attempt is in progress."""
    record = read_stage(_run_folder(plan), key=EXPORT_KEY)
    return record is not None and record.outcome == "running"


def _mend_export(plan: ExportPlan, *, at: str) -> None:
    """Complete the run's record if xsft was killed between the two records of a complete export."""
    record = read_stage(_run_folder(plan), key=EXPORT_KEY)
    if record is not None and record.outcome == "running":
        done = with_end(record, outcome="completed", reason=None, status=record.last.exit_status, at=at)
        save_record(done, _run_folder(plan))


def refuse_without_room(plan: ExportPlan) -> None:
    """Raise EnvironmentMissing if the memory or the disk cannot hold the weights once: the export would fail.

    source: maxtext@0.2.5 checkpoint_conversion/to_huggingface.py loads the whole checkpoint.
    """
    size, memory = plan.weights_bytes, memory_bytes()
    if size is None:
        return
    if memory is not None and memory < size + PROCESS_BYTES:
        raise EnvironmentMissing(
            f"Exporting {plan.training} takes at least {size_text(size + PROCESS_BYTES)} of memory; this machine has "
            f"{size_text(memory)}.",
            fix="Export on a larger machine, or by a job of the training's cluster: xsft checkpoint export FILE.yaml."
            if plan.inputs.weights.startswith("gs://")
            else "Export on a larger machine.",
            id="export-memory",
        )
    existing, free = _disk(Path(plan.directory))
    if free < size:
        raise EnvironmentMissing(
            f"Exporting {plan.training} takes about {size_text(size)} of disk space at {existing}; {size_text(free)} "
            "is free.",
            fix="Free some space, or name another folder with --output.",
            id="export-disk",
        )


def why_no_logits(plan: ExportPlan) -> str:
    """Return why logits cannot be compared on this machine; empty if they can."""
    memory = memory_bytes()
    needs = logits_memory(plan.weights_bytes)
    if memory is None or needs is None or needs <= memory:
        return ""
    takes, has = size_text(needs), size_text(memory)
    return f"comparing logits takes about {takes} of memory, and this machine has {has}; only tensors were compared"


def _disk(path: Path) -> tuple[Path, int]:
    """Return the nearest folder that exists, and the bytes that are free there."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return existing, shutil.disk_usage(existing).free
