"""Converts Hugging Face weights on this machine, once: MaxText's to_maxtext in its environment, monitored and recorded.

Of two concurrent callers one converts, and the other waits and uses the result. Nothing is ever deleted: an interrupted
try keeps its folder, and the next one gets another.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.acceptance import accept_late
from xsft.base.amounts import size_text
from xsft.base.errors import AlreadyRunning, EnvironmentMissing, RunFailed
from xsft.base.problems import Problem, errors_in, warning
from xsft.base.result_record import to_json
from xsft.checks.cpu_job import CONVERSION_DISK, CONVERSION_MEMORY, CONVERSION_UNCHECKED
from xsft.launch.local_folder import RunFolder
from xsft.launch.local_machine import Machine, program_environment
from xsft.launch.local_program import ProgramEnd, follow_program
from xsft.launch.stage_record import (
    StageRun,
    begin_attempt,
    beside_fields,
    check_usable,
    run_recorded,
    save_record,
    stage_record,
    with_end,
)
from xsft.machine import clock
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.memory import memory_bytes
from xsft.machine.parallel import repeat_call
from xsft.machine.paths import private_folder
from xsft.machine.pid_namespace import refuse_where_harmful
from xsft.machine.scratch import scratch_folder
from xsft.planning.tries import OWN
from xsft.records import CONVERSION_KEY
from xsft.records.record import Outcome, Record
from xsft.spec.conversion_record import FILE, ConversionRecord
from xsft.weights.conversion_estimate import ConversionEstimate
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.conversion_progress import BytesDone, ConversionEvent, conversion_event

LOOK_EVERY_S = 0.5
"""Seconds between checks of the bytes written."""


class ConversionResult(Struct, frozen=True, kw_only=True):
    action: Literal["finished", "created", "attempt"]
    """`finished`: it existed. `created`, `attempt`: converted now, by the first or a later attempt of this run."""
    why: str
    outcome: Outcome
    reason: str | None = None
    """Why it did not complete; None if it did."""
    plan: ConversionPlan
    checkpoint: str | None
    """load_parameters_path; None if there is no complete checkpoint."""
    record: Path | None = None
    log: Path | None = None
    warnings: tuple[Problem, ...] = ()


class Conversion(Struct, frozen=True, kw_only=True):
    """The inputs of a conversion on this machine."""

    look: Callable[[], ConversionPlan]
    """Read the files again and return the plan. Raises SpecError if the result is not what the workload requests."""
    machine: Callable[[], Machine]
    """Return the machine, whose environment is built if it is missing; called once there is something to convert, and
    memory and disk for it."""
    cache: Path
    """xsft's cache, which will hold the download."""
    on_event: Callable[[ConversionEvent], None]
    waiting: Callable[[], None]
    """Called if another process is converting the same weights."""
    verify: Callable[[ConversionPlan], str]
    """Compare the checkpoint with its source and return how. Raises RunFailed if they differ."""
    accepted: Mapping[str, str] = {}
    """`checks:` of the workload."""


def convert_here(conversion: Conversion) -> ConversionResult:
    """Return the existing conversion, else convert. A converter that fails or is interrupted gives a result that states
    it. Raises Refused, EnvironmentMissing.
    """
    plan = conversion.look()
    if plan.whole and not _is_unrecorded(plan):
        return _existing_conversion(plan)
    folder = stage_run(plan).folder
    first = Path(plan.first)  # its lock covers the conversion, whichever run asks for it
    with check_usable(first), exclusive(first / "xsft" / "lock", waiting=conversion.waiting):
        plan = conversion.look()  # another process may have finished it
        if plan.whole:
            if _is_unrecorded(plan):
                _mend_conversion(plan, verified=conversion.verify(plan), at=clock.now())
            return _existing_conversion(plan)
        with _hold_conversion(plan, folder):
            return _convert_once(conversion, plan)


def _is_unrecorded(plan: ConversionPlan) -> bool:
    """Return whether the result is complete, but its record says that it is in progress."""
    return plan.recorded is not None and plan.recorded.outcome != "completed"


def _existing_conversion(plan: ConversionPlan) -> ConversionResult:
    made = plan.recorded
    if made is None:
        why = "it has the model's names and shapes; no record names its source weights"
    else:
        at = f" at {made.finished_at}" if made.finished_at else ""
        commit = f", commit {made.commit[:12]}" if made.commit else ""
        why = f"{made.run_name} converted the same weights{at}{commit}{_verified_text(made.verified)}"
    return ConversionResult(action="finished", why=why, outcome="completed", plan=plan, checkpoint=plan.whole)


def _verified_text(verified: str) -> str:
    return f"; {verified}" if verified else ""


@contextmanager
def _hold_conversion(plan: ConversionPlan, folder: RunFolder) -> Iterator[None]:
    """Hold the lock of the conversion. `status` and `cancel` read this lock."""

    def refuse() -> None:
        raise AlreadyRunning(
            f"{plan.run_name} is converting other weights now",
            fix=f"wait for it: xsft wait {plan.run_name}",
        )

    folder.own.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.lock, waiting=refuse):
        yield


def _convert_once(conversion: Conversion, plan: ConversionPlan) -> ConversionResult:
    run = stage_run(plan)
    before, missing = stage_record(run), accept_late(lacks(plan, cache=conversion.cache), conversion.accepted)
    refused = errors_in(missing)
    if refused:
        raise EnvironmentMissing(refused[0].message, fix=refused[0].fix, id=refused[0].id)
    machine = conversion.machine()
    contained = machine.contain()
    refuse_where_harmful(contained)
    record = begin_attempt(before, plan.argv, folder=run.folder, machine=machine, save=partial(_save, plan=plan))
    log = Path(record.last.log)

    def end(
        outcome: Outcome,
        reason: str | None = None,
        *,
        status: int | None = None,
        warnings: tuple[Problem, ...] = (),
        verified: str = "",
    ) -> ConversionResult:
        """Record the end in both records."""
        _save(with_end(record, outcome=outcome, reason=reason, status=status, at=clock.now()), plan, verified=verified)
        return ConversionResult(
            action="created" if len(record.attempts) == 1 else "attempt",
            why=plan.why + _verified_text(verified),
            outcome=outcome,
            reason=reason,
            plan=plan,
            checkpoint=plan.checkpoint if outcome == "completed" else None,
            record=run.folder.record,
            log=log,
            warnings=(*contained.warnings, *missing, *warnings),
        )

    def work() -> ConversionResult:
        converter = _run_converter(conversion, plan, machine, argv=record.last.argv, log=log)
        reason = _why_unmade(plan, conversion.look(), converter)
        if reason:
            return end("failed", reason, status=converter.status)
        try:
            verified = conversion.verify(plan)
        except RunFailed as failed:
            return end("failed", f"{failed.message} {failed.fix}".strip(), status=converter.status)
        message = f"The checkpoint is complete; afterwards {converter.why}."
        fix = "Use the checkpoint; no second conversion is needed."
        warned = warning("failed-after-save", "model.hf", message, fix)
        warnings = (warned,) if converter.status else ()
        return end("completed", status=converter.status, warnings=warnings, verified=verified)

    return run_recorded(work, record=end)


def _run_converter(
    asked: Conversion, plan: ConversionPlan, machine: Machine, *, argv: tuple[str, ...], log: Path
) -> ProgramEnd:
    def on_line(line: str) -> None:
        event = conversion_event(line)
        if event is not None:
            asked.on_event(event)

    def tell_bytes() -> None:
        asked.on_event(bytes_done(plan, Path(plan.directory), machine=machine))

    with scratch_folder("convert") as scratch, repeat_call(tell_bytes, every_s=LOOK_EVERY_S):
        env = program_environment(machine, scratch, online=not plan.inputs.source.is_folder)
        command, env = (*machine.contain().prefix, *argv), {**env, "JAX_PLATFORMS": "cpu"}
        return follow_program(command, name="to_maxtext", env=env, log=log, on_line=on_line)


def bytes_done(plan: ConversionPlan, directory: Path, *, machine: Machine) -> BytesDone:
    """Return the bytes of the result in `directory`; before there are any, those of the download."""
    needs, source, now = plan.estimate, plan.inputs.source, clock.monotonic()
    written = _folder_size(directory)
    if written or source.is_folder:
        return BytesDone(done=written, of=needs.output if needs else None, at=now)
    blobs = _hub_home(machine) / "hub" / f"models--{source.repo.replace('/', '--')}" / "blobs"
    return BytesDone(doing="downloading", done=_folder_size(blobs), of=needs.download if needs else None, at=now)


def _hub_home(machine: Machine) -> Path:
    """Return HF_HOME of the converter. Files are in `hub/models--<owner>--<name>/blobs` there, from their first byte.
    source: huggingface_hub@2.4.0 file_download.py [repo_folder_name, hf_hub_download]."""
    return machine.cache / "huggingface"


def _folder_size(directory: Path) -> int:
    """Return the bytes without xsft's own files. Orbax renames folders while it writes: one may be gone when it is
    read.
    """
    total = 0
    for folder, below, files in os.walk(directory):
        below[:] = [name for name in below if f"{name}/" != OWN]
        for name in files:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total


def _why_unmade(plan: ConversionPlan, after: ConversionPlan, converter: ProgramEnd) -> str:
    """Return why there is no checkpoint, by the files that exist: the exit status proves neither success nor failure.
    Empty if it is complete."""
    if after.digest != plan.digest:
        return f"{plan.inputs.source.repo} changed while it was converted"
    if after.whole == plan.checkpoint:
        return ""
    if converter.status:
        return converter.why
    return f"{converter.why}, and {plan.checkpoint} is not the requested checkpoint: {after.why_not or 'not found'}"


def stage_run(plan: ConversionPlan) -> StageRun:
    inputs = {"training": plan.training, "directory": plan.directory, **to_builtins(plan.inputs)}
    return StageRun(run_name=plan.run_name, digest=plan.digest, output=plan.output, key=CONVERSION_KEY, inputs=inputs)


def _save(record: Record, plan: ConversionPlan, *, verified: str = "") -> None:
    """Write both records: the run's, then the one beside the result."""
    save_record(record, stage_run(plan).folder)
    beside = Path(plan.directory) / FILE
    private_folder(beside.parent)
    inputs = to_builtins(plan.inputs)
    write_atomic(beside, to_json(ConversionRecord(**beside_fields(record), inputs=inputs, verified=verified)))


def _mend_conversion(plan: ConversionPlan, *, verified: str, at: str) -> None:
    """Complete the records of a save that ended when xsft was killed before it could record that."""
    if plan.recorded is None or plan.whole is None:
        return
    beside = Path(plan.whole).parent.parent / FILE
    write_atomic(beside, to_json(replace(plan.recorded, outcome="completed", finished_at=at, verified=verified)))
    run = stage_run(plan)
    if not run.folder.record.is_file():
        return
    record = stage_record(run)
    if record.attempts and record.last.argv == plan.recorded.argv:
        saved = with_end(record, outcome="completed", reason=None, status=record.last.exit_status, at=at)
        save_record(saved, run.folder)


def lacks(plan: ConversionPlan, *, cache: Path) -> tuple[Problem, ...]:
    """Return a problem for the memory and the disk space that the conversion needs and this machine lacks; a warning if
    the model's size is unknown, and so what it needs."""
    needs = plan.estimate
    return (unchecked_warning(plan),) if needs is None else (*_memory(plan, needs), *_disk(plan, needs, cache))


def unchecked_warning(plan: ConversionPlan) -> Problem:
    """Return the warning that nothing was checked."""
    message = f"The size of {plan.inputs.model} is unknown, so memory and disk were not checked before the conversion."
    fix = "Compare the size of the safetensors files with this machine: memory takes 1.2 times what is saved."
    return CONVERSION_UNCHECKED.warning("model.hf", message, fix)


def _memory(plan: ConversionPlan, needs: ConversionEstimate) -> Iterator[Problem]:
    memory = memory_bytes()
    if memory is not None and memory < needs.memory:
        takes, has = size_text(needs.memory), size_text(memory)
        message = f"Converting {plan.inputs.model} takes about {takes} of memory; this machine has {has}."
        fix = "Convert on a larger machine, or accept the risk: checks: {conversion-memory: why}."
        yield CONVERSION_MEMORY.error("model.hf", message, fix)


def _disk(plan: ConversionPlan, needs: ConversionEstimate, cache: Path) -> Iterator[Problem]:
    """Yield a problem if disk space is missing for the output or the hub's cache; added up if they are on one file
    system.
    """
    needed: dict[int, tuple[Path, int]] = {}
    for path, size in ((Path(plan.directory), needs.output), (cache, needs.download)):
        existing = next(parent for parent in (path, *path.parents) if parent.exists())
        device = existing.stat().st_dev
        needed[device] = (existing, needed.get(device, (existing, 0))[1] + size)
    for existing, size in needed.values():
        free = shutil.disk_usage(existing).free
        if free < size:
            takes, has = size_text(size), size_text(free)
            message = f"Converting {plan.inputs.model} takes about {takes} of disk space at {existing}; {has} is free."
            fix = "Free some space or name another output; or accept the risk: checks: {conversion-disk: why}."
            yield CONVERSION_DISK.error("output", message, fix)
